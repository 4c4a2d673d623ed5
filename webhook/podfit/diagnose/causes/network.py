"""Causes between the Pod and the model hub."""

from __future__ import annotations

from podfit.diagnose.cause import Cause, Signature

_HUB = (
    r"huggingface_hub|huggingface\.co|hf\.co|hf_hub|hf_transfer|hf_xet|modelscope|snapshot_download|"
    r"cached_file|amazonaws|storage\.googleapis|runai|s3://|gs://|boto|transformers/utils/hub|"
    r"weight_utils\.py|download"
)

"""Frames and addresses of a download."""

CAUSES = (
    Cause(
        "rate-limited",
        "The model hub limits the rate of requests",
        "Fill one cache that all replicas share (a volume at HF_HOME), and give the container HF_TOKEN from a Secret. "
        "A token has a higher limit than an address. With a full cache, HF_HUB_OFFLINE=1 asks nothing.",
        (
            Signature(
                r"\b429 (?:Client Error|Too Many Requests)|(?:HfHubHTTPError|HTTPError|"
                r"HTTPStatusError): .{0,40}\b429\b|"
                r"[Ss]tatus(?: code)?:? ?429\b|HTTP 429\b|hit the rate limit|We had to rate limit|"
                r"rate[- ]limited? .{0,60}hugging|Too Many Requests for url|Rate limit(?:ed)? (?:exceeded|reached)",
                "huggingface.co; huggingface_hub utils/_http.py",
                unless=r"thrown while requesting|toomanyrequests|pull rate limit",
            ),
        ),
        ("model-cache-missing",),
    ),
    Cause(
        "download-failed",
        "The model could not be downloaded",
        "Check name resolution, proxy and network policy from inside of the Pod; or load the model from a "
        "volume. Where HF_HUB_OFFLINE=1 is set, the cache must hold every file already.",
        (
            Signature(
                r"LocalEntryNotFoundError|OfflineModeIsEnabled|offline mode is enabled|"
                r"outgoing traffic has been disabled|We couldn't connect to 'https?://|"
                r"we cannot find the requested files in the(?: local)? (?:disk )?cache|"
                r"cannot find the (?:appropriate snapshot folder|requested files)|"
                r"There was a specific connection error",
                "huggingface_hub file_download.py, _snapshot_download.py, utils/_http.py; transformers utils/hub.py",
            ),
            Signature(
                r"(?:ConnectionError|ConnectTimeout|ReadTimeout|ConnectError|ProxyError|SSLError|MaxRetryError|"
                r"ChunkedEncodingError|IncompleteRead|RemoteProtocolError|NewConnectionError)\b.*(?:huggingface|"
                r"hf\.co|modelscope|amazonaws|googleapis|xethub)",
                "requests, httpx, urllib3",
                unless=r"thrown while requesting|[Rr]etrying",
            ),
            Signature(
                r"(?:\b(?:requests\.exceptions|httpx|httpcore|urllib3\.exceptions|aiohttp\.\w+)\.\w*(?:Error|Timeout|"
                r"Read)\b|Temporary failure in name resolution|Name or service not known|Could not resolve host|"
                r"Connection (?:refused|reset by peer)|Network is unreachable|CERTIFICATE_VERIFY_FAILED|"
                r"Read timed out|timed out\b)",
                "requests, httpx, urllib3, getaddrinfo, inside of a download's frames",
                within=_HUB,
                unless=r"thrown while requesting|[Rr]etrying|Client Error|HTTPError|Repo id must",
            ),
            Signature(
                r"\b5\d\d (?:Client Error|Server Error).*(?:huggingface|hf\.co|modelscope)|"
                r"(?:HfHubHTTPError|HTTPError): 5\d\d\b",
                "huggingface_hub utils/_http.py",
                unless=r"thrown while requesting",
            ),
            Signature(
                r"CAS service error|An error occurred while downloading using `?hf_transfer|"
                r"Consistency check failed: file should be of size|ReqwestMiddleware|Data processing error",
                "hf_xet, hf_transfer, huggingface_hub file_download.py",
                unless=r"No space left|os error 28",
            ),
            Signature(
                r"NoCredentialsError|Unable to locate credentials|NoSuchBucket|An error occurred \((?:403|404|"
                r"AccessDenied|NoSuchKey|InvalidAccessKeyId)\)|DefaultCredentialsError|Could not find any files in s3|"
                r"AccessDenied\b.*(?:s3|bucket)|(?:EndpointConnection|ConnectTimeout|ReadTimeout)Error: .*endpoint URL",
                "botocore, google-auth, Run:ai model streamer",
            ),
            Signature(
                r"error downloading or loading vocab file|failed to download or load vocab file",
                "openai_harmony, whose vocabulary comes from openaipublic.blob.core.windows.net",
            ),
            Signature(
                r"Model ['\"]?\S+['\"]? (?:not found on|does not exist on) ModelScope|modelscope\S*(?:NotExistError|"
                r"HTTPError)",
                "modelscope hub/errors.py",
            ),
        ),
        ("model-cache-missing", "offline-without-cache"),
        meanings=(
            (
                r"name resolution|Name or service not known|Could not resolve host|NameResolutionError",
                "The name of the host is not resolved: look at the Pod's dnsPolicy and at a NetworkPolicy for port 53.",
            ),
            (
                r"CERTIFICATE_VERIFY_FAILED",
                "A proxy with its own certificate is between them: mount its CA, and name it in REQUESTS_CA_BUNDLE and "
                "SSL_CERT_FILE.",
            ),
            (r"ProxyError|\b407\b", "The proxy of HTTPS_PROXY denies or does not answer: check its address and user."),
            (
                r"vocab file",
                "gpt-oss needs the files o200k_base.tiktoken and cl100k_base.tiktoken: put them on a volume, and set "
                "TIKTOKEN_ENCODINGS_BASE to their folder.",
            ),
        ),
    ),
)
