# The service in a container: an unprivileged user, everything that changes in /data, and a root that may be read-only
# (with a tmpfs at /tmp). Build and run:
#   docker build -t evm-data-service .
#   docker run --read-only --tmpfs /tmp -v evm-data:/data -p 127.0.0.1:3000:3000 -e RPC_URL_ETH=… evm-data-service
# `scripts/deploy/try.sh` runs these steps without a container, and refuses steps that it doesn't know.
ARG BUN_VERSION=1.4.4

FROM oven/bun:${BUN_VERSION}-slim AS packages
WORKDIR /app
COPY package.json bun.lock bunfig.toml ./
RUN bun install --frozen-lockfile --production --omit=peer
COPY scripts/deploy/prune.sh ./
RUN sh prune.sh node_modules

FROM oven/bun:${BUN_VERSION}-slim
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY package.json bunfig.toml tsconfig.json LICENSE ./
COPY src ./src
RUN mkdir -p /data && chown 1000:1000 /data
# The runtime would keep compiled sources in the home folder, which may be read-only.
ENV BUN_RUNTIME_TRANSPILER_CACHE_PATH=0
ENV HOST=0.0.0.0
ENV PORT=3000
ENV EVENT_LOG_URL=sqlite:///data/events.db
ENV SNAPSHOT_DIR=/data/snapshots
USER 1000:1000
VOLUME /data
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["bun", "-e", "process.exit((await fetch(`http://127.0.0.1:${process.env.PORT}/health/live`)).ok ? 0 : 1)"]
ENTRYPOINT ["bun", "src/main.ts"]
