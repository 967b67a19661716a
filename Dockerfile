# syntax=docker/dockerfile:1
# One binary, run by a user that owns nothing but its state. The configuration is mounted: STC_CONFIG names it, and the paths
# in it are relative to its folder. The root file system may be read-only: what is written lies in /var/lib/stc and /tmp.
#
#   docker build --tag safe-tool-call .
#   docker run --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges \
#     --volume stc-state:/var/lib/stc --volume ./stc:/etc/stc:ro --env STC_CONFIG=/etc/stc/stc.yaml safe-tool-call
#
# The first start creates the key that signs the audit, /var/lib/stc/audit-logs.key, in that volume: back it up, or mount a key of
# your own and name it in audit.checkpointKeyFile.
#
# Exact tags, which a registry may move. The image of a release is built with the digests behind them (docs/releasing.md).
ARG BUN_IMAGE=oven/bun:1.4.5-slim
ARG BASE_IMAGE=debian:12.12-slim

FROM ${BUN_IMAGE} AS build
WORKDIR /build
COPY package.json bun.lock bunfig.toml tsconfig.json ./
COPY deploy/patches ./deploy/patches
RUN bun install --frozen-lockfile --production
COPY src ./src
COPY docs/configuration.schema.json ./docs/
RUN bun run compile

FROM ${BASE_IMAGE}
ARG BASE_IMAGE
# Of the release: --build-arg VERSION=… --build-arg REVISION=$(git rev-parse HEAD)
ARG VERSION=development
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Safe Tool Call" \
  org.opencontainers.image.description="A governed tool-call proxy for LLM agents" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.source="https://github.com/safe-tool-call/safe-tool-call" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.base.name="${BASE_IMAGE}"
# git for the git tools; an init, since the service starts commands.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends ca-certificates git tini \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --system --uid 65532 --user-group --home-dir /nonexistent --shell /usr/sbin/nologin stc \
  && install --directory --owner=stc --group=stc --mode=0700 /var/lib/stc /var/lib/stc/audit-logs
COPY --from=build /build/dist/stc /usr/local/bin/stc
COPY LICENSE THIRD_PARTY /usr/share/doc/safe-tool-call/
COPY tools /app/tools
COPY proto /app/proto
WORKDIR /app
# A transpiler cache would be code that lies where the service can write.
ENV STC_HOST=0.0.0.0 STC_AUDIT_DIR=/var/lib/stc/audit-logs DO_NOT_TRACK=1 BUN_RUNTIME_TRANSPILER_CACHE_PATH=0
# Memory in bytes for which the garbage collector plans; without it, the memory of the whole node. Set it to the memory limit
# of the container (docs/performance.md).
ENV BUN_JSC_forceRAMSize=536870912
USER 65532:65532
EXPOSE 8787 8788 9787
VOLUME ["/var/lib/stc"]
STOPSIGNAL SIGTERM
# It finds the service by STC_CONFIG; whoever runs `serve --config FILE` sets that, too.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/usr/local/bin/stc", "health"]
# An init as PID 1: it reaps what commands leave behind and hands signals on.
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/stc"]
CMD ["serve"]
