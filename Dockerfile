# syntax=docker/dockerfile:1
# Any Python from 3.11 on. A release names it by its digest (PYTHON=python:3.13-slim@sha256:…), so that a build can be
# repeated; .github/workflows/release.yaml rejects one without. tests/e2e/test_image.py takes the same steps.
ARG PYTHON=python:3.13-slim

FROM ${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
# Without pip: the base's own installs into it, so that there is nothing to take out again.
RUN python -m venv --without-pip /opt/podfit
# The dependencies, each with its hash, in a layer of their own: a change of the code does not fetch them again.
COPY requirements/server.lock .
RUN pip --python /opt/podfit/bin/python install --no-compile --require-hashes --only-binary=:all: -r server.lock
# What builds the wheel is pinned by its hash, too.
COPY requirements/build.lock .
RUN pip install --require-hashes --only-binary=:all: -r build.lock
COPY pyproject.toml README.md LICENSE ./
COPY docs/podfit.1 docs/
COPY examples examples
COPY policies policies
COPY webhook webhook
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/podfit/bin/python install --no-compile --no-deps /wheels/*.whl \
    && /opt/podfit/bin/python -m compileall -q -f -j 0 --invalidation-mode unchecked-hash /opt/podfit/lib

FROM ${PYTHON}
# All is compiled: nothing needs to be written, the root file system may be read-only.
ENV PATH=/opt/podfit/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /opt/podfit /opt/podfit
USER 65532:65532
WORKDIR /
EXPOSE 8443
ENTRYPOINT ["podfit"]
CMD ["serve", "--bind", ":8443", "--cert", "/etc/podfit/tls/tls.crt", "--key", "/etc/podfit/tls/tls.key"]
