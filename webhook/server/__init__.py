"""The admission server: it answers reviews in time, and keeps itself ready.

Here: `app` (routes), `reviews` (a review and its answer), `decision_cache`, `deadline`, `live` (the policies in
force), `live_facts` (a folder with newer facts), `acceptance` (the status of Policy objects), `readiness`, `metrics`,
`accesslog` and `lines` (logs that no review waits for; logging's own QueueListener counts no losses), `registration`
(the webhook configurations), `doctor` (an installation checked), `certs`. Not here: decisions and their texts
(`evaluation`). Imports all packages but `cli`.
"""
