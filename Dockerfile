# The gateway's image: dependencies as locked, no compiler, no pip, not root, nothing written but in /tmp and data/,
# where conversations are.
# tools/ and config/ are meant to be mounted over: /srv/gateway/tools and /srv/gateway/config.

FROM python:3.12-slim AS build

WORKDIR /build
COPY requirements.lock ./
RUN python -m venv --without-pip /opt/venv \
    && pip --python /opt/venv/bin/python install --no-cache-dir --disable-pip-version-check \
       --require-hashes --requirement requirements.lock
COPY app ./app
RUN python -m compileall -q -s /build -p /srv/gateway app


FROM python:3.12-slim

# What installs packages came with the base image; who runs the gateway has no use for it.
RUN rm -rf /usr/local/bin/pip* /usr/local/lib/python3.*/ensurepip /usr/local/lib/python3.*/site-packages/* \
    && groupadd --system --gid 10001 gateway \
    && useradd --system --uid 10001 --gid gateway --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin gateway

WORKDIR /srv/gateway
COPY --from=build /opt/venv /opt/venv
COPY --from=build /build/app ./app
COPY tools ./tools
COPY config ./config
RUN install --directory --owner=gateway --group=gateway --mode=0700 data

# `tools` is the folder here and not an installed package too, which a mounted folder without __init__.py would lose to.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    GATEWAY_SERVER__HOST=0.0.0.0

USER 10001:10001
VOLUME /srv/gateway/data
EXPOSE 8000
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 CMD ["python", "-c", "\
import http.client, os, sys; \
gateway = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('GATEWAY_SERVER__PORT') or 8000), timeout=2); \
gateway.request('GET', '/readyz'); \
sys.exit(gateway.getresponse().status != 200)"]
ENTRYPOINT ["python", "-m", "app"]
CMD ["serve"]
