/** Meanings of keys that have no comment in the schema. A test fails for a key that has neither. */
export const MEANINGS: Readonly<Record<string, string>> = {
  "server.host": "Address to listen on for calls.",
  "server.port":
    "Port to listen on for calls. 0 takes a free port, which the log names; `off` leaves the Unix socket alone.",
  "server.resource":
    "URL under which agents know the service. With it, `/.well-known/oauth-protected-resource` names the issuers of its tokens (RFC 9728).",
  "server.operator.host":
    "Address of a second listener for /healthz, /readyz and /metrics. It serves no other route and accepts any `Host`.",
  "server.operator.port": "Port of that listener. Without this section there is no second listener.",
  "server.bodyBytesMax": "Largest request body.",
  "server.headerBytesMax": "Largest total size of a request's headers.",
  "server.bodyDepthMax": "Deepest nesting of objects and lists in a body.",
  "server.bodyKeysMax": "Maximum number of keys in a body, all objects together.",
  "server.http":
    "The HTTP server of the agents' listener: `built-in` (llhttp on sockets), or `fastify`, which needs more processor time. The listeners of operators and of the console always use fastify.",
  "server.headersTimeoutMs": "Time for a request's headers to arrive.",
  "server.requestTimeoutMs": "Time for a request's body to arrive.",
  "server.shutdownDelayMs":
    "Time after SIGTERM in which the service still accepts calls, while `/readyz` returns 503 and every answer closes its connection, so that clients move to other replicas. Set it to what load balancers need to notice, 5000 to 10000 in Kubernetes. SIGINT (Ctrl-C) skips it ([operate](operating.md#stop-and-replace-a-replica)).",
  "server.drainTimeoutMs":
    "Time for running calls to end, after the delay. Keep both together below the platform's own limit (Kubernetes: `terminationGracePeriodSeconds`).",
  "audit.dir": "Directory of the audit. One service writes it; never use a file system that several machines share.",
  "audit.durability": "`write` leaves the last lines in the machine's memory: for tests only.",
  "audit.queueEntriesMax": "Lines that may wait for the disk; beyond it calls are refused with AUDIT_UNAVAILABLE.",
  "audit.hashKeyFile": "Key of at least 16 bytes. With it, `argsHash` is an HMAC and does not reveal short values.",
  "audit.checkpointKeyFile":
    "Private key that signs the checkpoints: Ed25519 in PEM (PKCS8), created by `stc audit keys --new FILE`. Without it, the first start creates one: the path of `dir` with `.key` appended ([where to keep it](audit.md#the-signing-key)).",
  "audit.export[].type": "Protocol of the receiver.",
  "audit.retentionDays": "Days to keep files that every exporter has passed. Without it, files are never deleted.",
  roles:
    'Roles by name: `{ support: { permissions: [tickets:read], tools: [ticket_read, "order_*"] } }`. A role gives its `permissions` and the permissions that its `tools` require for any arguments; `*` matches any characters of a tool\'s name.',
  "jwt.issuers[].issuer": "Exact value of `iss`.",
  "jwt.issuers[].audience":
    "Value that `aud` must contain, or a list of which it must contain one, such as the URL of `server.resource`. Operators' tokens need another audience than agents'.",
  "jwt.issuers[].algorithms": "Accepted signature algorithms; asymmetric ones only.",
  "jwt.issuers[].typ": "Required `typ` of generic tokens. Without it, `typ` may be absent, `JWT` or `at+jwt`.",
  "jwt.issuers[].permissionsClaim":
    "Claim that lists the permissions. A list of texts, or one text of names between spaces. Where a token lacks it, `scope` counts, then `scp`.",
  "jwt.issuers[].maxLifetimeSeconds": "Longest accepted `exp − iat`. Default: 3600; for `kubernetes`, 7200.",
  "jwt.issuers[].operators": "Accepts this issuer's tokens at the operators' endpoints only.",
  "jwt.clientCertificates[].permissions": "Permissions of this caller.",
  "workspace.agents[].issuer": "Issuer (`iss`) of the caller that these limits apply to.",
  "workspace.agents[].subject": "Subject (`sub`) of the caller that these limits apply to.",
  "workspace.agents[].maxReadBytes": "Replaces `workspace.maxReadBytes` for this caller.",
  "workspace.agents[].maxWriteBytes": "Replaces `workspace.maxWriteBytes` for this caller.",
  "workspace.runId": "Name of the folder of one run.",
  "workspace.search.filesMax": "Maximum number of files that one search reads.",
  "workspace.search.bytesMax": "Maximum bytes that one search reads.",
  "workspace.search.fileBytesMax": "Larger files are skipped.",
  "workspace.search.timeMs": "Time limit of a search. After it, the search returns what it has found.",
  "approvals.pendingPerCallerMax": "Pending approval requests of one caller.",
  "approvals.pendingPerSessionMax": "Pending approval requests of one session.",
  "approvals.grantSeconds": "How long an approval for a session lasts.",
  "approvals.sessionSeconds": "How long a session lasts after the last change of its mode or grants.",
  "approvals.sessionsPerCallerMax": "Sessions of one caller at the same time.",
  "approvals.idempotencySeconds": "How long an `Idempotency-Key` is remembered.",
  "approvals.retentionDays": "Days to keep ended approval requests.",
  "approvals.sweepEverySeconds": "Time between two searches for expired requests, grants and sessions.",
  "limits.concurrentCallsMax":
    "Calls that may run at once; beyond it calls are refused with OVERLOADED. With tenants, the service's own is the capacity of the process, which they share.",
  "limits.concurrentCallsPerCallerMax":
    "Calls of one caller that may run at once; beyond it they are refused with RATE_LIMITED.",
  "log.level": "Level of the operational log on standard output. The audit has no level.",
};
