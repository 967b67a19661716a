# syntax=docker/dockerfile:1
# The service as a non-root user. The configuration is mounted: STC_CONFIG names it, and the paths in it are relative to its folder.
FROM oven/bun:1.4.5-slim AS dependencies
WORKDIR /app
COPY package.json bun.lock bunfig.toml ./
RUN bun install --frozen-lockfile --production

FROM oven/bun:1.4.5-slim
RUN apt-get update \
  && apt-get install --yes --no-install-recommends git tini \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --system --uid 65532 --home-dir /nonexistent --shell /usr/sbin/nologin stc \
  && install --directory --owner=stc --mode=0700 /var/lib/stc/audit-logs
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json bunfig.toml tsconfig.json ./
COPY src ./src
COPY tools ./tools
COPY proto ./proto
ENV STC_HOST=0.0.0.0 STC_AUDIT_DIR=/var/lib/stc/audit-logs DO_NOT_TRACK=1
USER 65532:65532
EXPOSE 8787
VOLUME ["/var/lib/stc/audit-logs"]
HEALTHCHECK --interval=10s --timeout=3s CMD ["bun", "--no-env-file", "--config=/app/bunfig.toml", "--no-install", "--eval", "process.exit((await fetch('http://127.0.0.1:' + (process.env.STC_PORT || 8787) + '/healthz')).ok ? 0 : 1)"]
# An init as PID 1: it reaps what commands leave behind and hands signals on.
ENTRYPOINT ["/usr/bin/tini", "--", "bun", "--no-env-file", "--config=/app/bunfig.toml", "--no-install", "/app/src/stc/main.ts"]
CMD ["serve"]
