"""Find the secrets in a manifest, and mask them in text for people. Every such text passes through `Secrets`.

A secret is the value of a flag, variable, JSON key, header or query parameter with such a name, or the password in a
URL. So is a text in the form of a known kind of token. Each quote of a known secret is masked, also in other
spellings (JSON, percent-encoding, upper and lower case). Placeholders, paths and words such as "auto" stay readable; a
number of a few digits is masked only after such a name.

`names`, `values`: what a secret looks like. `texts`, `objects`: where it is. `masks`: stars in its place.
"""

from __future__ import annotations

from podfit.base.secret.masks import FORMS, UNMASKED, WITHHELD, Secrets, has_form
from podfit.base.secret.names import gives, is_secret_name
from podfit.base.secret.objects import MAX_VALUES
from podfit.base.secret.texts import MAX_SECRETS, secrets_in
from podfit.base.secret.values import is_secret

__all__ = [
    "FORMS", "MAX_SECRETS", "MAX_VALUES", "UNMASKED", "WITHHELD", "Secrets", "gives", "has_form", "is_secret",
    "is_secret_name", "secrets_in",
]  # fmt: skip
