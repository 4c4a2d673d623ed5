"""Objects, policies and facts in; findings, repairs and decisions out. Pure.

Here: `lint` (object → report), `repair` (findings → edits), `review` (AdmissionReview → answer). Also `compare` (two
reports), `subject` (how an object is called), `policy`, `rehearsal` (what a policy would do), `scan` (all workloads
of a cluster). Not here: HTTP, files, formats for people. Imports `base` to `rules`.

What softens a denial to a warning (`lint`, `Engine.doubt`; an example of each is in `tests/never_denied`):
- the finding rests on a fact that may only inform;
- parts of the command are unknown: arguments in a variable, a config file that is not shown, a server in one of
  several branches of a script;
- a program wraps vLLM, or an engine spans Pods;
- the image is not vLLM's own, so flags may differ under the same version, unless a policy vouches for it
  (`spec.releases.images`);
- a parameter of a Template or a Workflow has no value yet, or has a default that may be replaced;
- an argument or a checkpoint makes the ledger itself uncertain (`vllm/memory/doubt.py`);
- live nodes: clusters scale from zero. They support a denial only under `assume.nodes: closed`.

Where podfit denies: workloads at their CREATE and UPDATE, and Pods without a controller. A Pod of a controller is
denied only under `enforce.ownedPods: deny`; an owner reference counts only if its kind makes such objects or belongs
to an operator. An update is denied only for what it introduces: both versions are evaluated with the same facts and
policy. An update back to a former template is warned about, because a rollback is a way out of trouble.

What podfit patches: Pods; workloads only under `mutate.workloads: true`. By default only what is certainly needed and
harmless, such as /dev/shm if this release needs more than 64 MiB. Requests, limits and probes only under `fix: true`,
and never against a LimitRange or a quota that is seen. `podfit fix` applies one repair at a time until none is left;
the new text is read again and must mean what the edits mean, or nothing is written. A denial does not rely on the
patch, unless `trustMutation: true`.
"""
