# syntax=docker/dockerfile:1
# Any Python from 3.11 on; pin the digest where builds must be repeatable.
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/podfit
# The dependencies, each with its hash, in a layer of their own: a change of the code does not fetch them again.
COPY requirements.lock .
RUN /opt/podfit/bin/pip install --require-hashes --only-binary=:all: -r requirements.lock
# What builds the wheel is pinned by its hash, too.
COPY requirements-dev.lock .
RUN pip install --require-hashes --only-binary=:all: -r requirements-dev.lock
COPY pyproject.toml README.md LICENSE ./
COPY webhook webhook
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/podfit/bin/pip install --no-deps /wheels/*.whl \
    && /opt/podfit/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash /opt/podfit/lib \
    && rm -rf /opt/podfit/lib/python3*/site-packages/pip /opt/podfit/lib/python3*/site-packages/pip-*.dist-info

FROM ${PYTHON}
# All is compiled: nothing needs to be written, the root file system may be read-only.
ENV PATH=/opt/podfit/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/podfit /opt/podfit
USER 65532:65532
WORKDIR /
EXPOSE 8443
ENTRYPOINT ["podfit"]
CMD ["serve", "--bind", ":8443", "--cert", "/etc/podfit/tls/tls.crt", "--key", "/etc/podfit/tls/tls.key"]
