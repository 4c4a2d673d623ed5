"""The admission server: it answers reviews in time, and keeps itself ready.

- `app`: routes
- `reviews`: a review and its answer; `decision_cache`, `deadline`
- `live`: the policies in force
- `acceptance`: the status of Policy objects
- `readiness`, `metrics`, `certs`
- `accesslog` and `lines`: logs that no review waits for (logging's own QueueListener counts no losses)
- `registration`: the webhook configurations
- `doctor`: the checks of an installation

Decisions and their texts are in `evaluation`. This package imports all packages except `cli`.
"""
