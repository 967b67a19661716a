import { z } from "zod";
import { isLoopback } from "../../core/network.ts";
import { type IssuerTenants, speaksFor } from "../../pipeline/identity/tenant-claim.ts";
import type { Modules } from "../module-types.ts";
import { workloadIssuer } from "./jwt.ts";
import { problemAdder, reloaded, tenantName, text } from "./values.ts";

/** Declares the section `hub`: the hub's end with `listen`, or the member's with `url`. */

const NAME_CHARACTERS_MAX = 512;
const MEMBERS_MAX = 10_000;

const pattern = z.string().min(1).max(NAME_CHARACTERS_MAX);

const member = z
  .strictObject({
    certificate: pattern
      .optional()
      .describe(
        "Name in the client certificate: a URI, such as a SPIFFE ID, a DNS name, or the common name of a certificate without such names. `*` matches any characters except `/`.",
      ),
    subject: pattern
      .optional()
      .describe(
        "Subject of the workload token, such as `system:serviceaccount:shop:agent`. `*` matches any characters except `/`.",
      ),
    tokenIssuer: text.optional().describe("Issuer of the workload token. Default: every issuer in `hub.tokens`."),
    issuers: z
      .array(text)
      .min(1)
      .max(64)
      .optional()
      .describe(
        "Issuers whose agents the member may ask for. Default: those in `jwt.issuers` without `operators: true` that speak for its tenant, or those without `tenants` for a member of the service itself. The hub trusts a member for these agents.",
      ),
    tenant: tenantName
      .optional()
      .describe(
        "Tenant, out of `tenants`, that the member belongs to: its calls use what the tenant has, and the tenant's approvers decide. Default: the service itself.",
      ),
  })
  .superRefine(({ certificate, subject, tokenIssuer }, context) => {
    const add = problemAdder(context);
    if ((certificate === undefined) === (subject === undefined)) add([], "needs exactly one of certificate, subject");
    if (tokenIssuer !== undefined && subject === undefined) add("tokenIssuer", "is only for subject");
  });

const tls = z.strictObject({
  certFile: text
    .optional()
    .describe(
      "File with the own certificate and the intermediate certificates, PEM. A changed file is used without interruption.",
    ),
  keyFile: text.optional().describe("File with the private key of the certificate, PEM."),
  clientCaFile: text
    .optional()
    .describe("At a hub: file with the root certificates (PEM) that members' certificates must come from."),
  caFile: text
    .optional()
    .describe("At a member: file with the root certificates (PEM) trusted for the hub, instead of the platform's."),
});

/** URL of the hub. */
const hubUrl = z
  .url({ protocol: /^https?$/, error: "must be a URL that begins with https://" })
  .refine(
    (url) => url.startsWith("https://") || isLoopback(URL.parse(url)?.hostname ?? ""),
    "must be https: approvals and tokens are sent there",
  )
  .refine((url) => {
    const { pathname, search, hash, username, password } = URL.parse(url) ?? {};
    return pathname === "/" && `${search}${hash}${username}${password}` === "";
  }, "must end after the host and the port");

/** Keys of a hub, and those of a member. */
const OF_HUB = ["tokens", "members", "requestsPerMemberMax"] as const;
const OF_MEMBER = ["tokenFile", "requestMs", "tenant"] as const;

export const hub = (sources: Modules["tokenSources"]) =>
  z
    .strictObject({
      /** Where members connect. With this key, the service is a hub: it needs `approvals.store` (or `storeUrlFile`). */
      listen: z
        .strictObject({
          host: text.default("127.0.0.1").describe("Address of this machine. Without `tls`, only a loopback address."),
          port: z.int().min(0).max(65_535).default(9789).describe("Port for members."),
        })
        .optional(),
      url: hubUrl
        .optional()
        .describe(
          "URL of the hub. With this key, the service is a member: it has no database, and shares what the hub's database has.",
        ),
      tls: tls.optional(),
      tokenFile: text.optional().describe("At a member: file with its workload token. It is read at every request."),
      requestMs: z
        .int()
        .min(100)
        .max(30_000)
        .optional()
        .describe("At a member: time limit for a request, with all its repetitions; by default 1000."),
      tenant: tenantName
        .optional()
        .describe(
          "At a member: tenant of the hub that it belongs to. It accepts tokens of this tenant's callers only (`jwt.issuers[].tenants`), and the hub answers it only as a member of this tenant.",
        ),
      tokens: z
        .array(workloadIssuer(sources))
        .max(16)
        .optional()
        .describe("At a hub: issuers of workload tokens, such as the cluster's. Each needs an audience of its own."),
      /** At a hub: who may connect. */
      members: reloaded(
        z.array(member).min(1).max(MEMBERS_MAX).optional(),
        "who may connect; members that may not any more get no further answer",
      ),
      requestsPerMemberMax: z
        .int()
        .min(1)
        .max(1_024)
        .optional()
        .describe(
          "At a hub: maximum requests of one member at once, all its replicas together, by default 64. Further ones must come again.",
        ),
    })
    .superRefine((section, context) => {
      const add = problemAdder(context);
      const { listen, url } = section;
      if (listen !== undefined && url !== undefined) add("url", "is for a member, and listen makes this service a hub");
      if (listen === undefined && url === undefined) add([], "needs listen (a hub) or url (a member)");
      if (listen !== undefined && url === undefined) checkHub(section, listen, add);
      if (url !== undefined && listen === undefined) checkMember(section, url, add);
    })
    .optional();

type Section = NonNullable<z.output<ReturnType<typeof hub>>>;
type Add = ReturnType<typeof problemAdder>;

function checkHub(section: Section, listen: NonNullable<Section["listen"]>, add: Add): void {
  for (const key of OF_MEMBER)
    if (section[key] !== undefined) add(key, "is for a member, and listen makes this service a hub");
  const { tls: files, tokens = [], members } = section;
  if (files === undefined && !isLoopback(listen.host)) {
    add("tls", `is missing: without TLS, the hub listens on loopback only, not on ${listen.host}`);
  }
  if (files !== undefined && files.certFile === undefined) add("tls.certFile", "is missing");
  if (files !== undefined && files.keyFile === undefined) add("tls.keyFile", "is missing");
  if (files?.caFile !== undefined) add("tls.caFile", "is for a member: a hub has clientCaFile");
  if (members === undefined) add("members", "is missing: without it, nobody may connect");
  for (const [index, { certificate, subject, tokenIssuer }] of (members ?? []).entries()) {
    if (certificate !== undefined && files?.clientCaFile === undefined) {
      add(["members", index, "certificate"], "needs hub.tls.clientCaFile, which is missing");
    }
    if (subject !== undefined && tokens.length === 0)
      add(["members", index, "subject"], "needs hub.tokens, which is missing");
    if (tokenIssuer !== undefined && !tokens.some(({ issuer }) => issuer === tokenIssuer)) {
      add(["members", index, "tokenIssuer"], "is not an issuer in hub.tokens");
    }
  }
}

function checkMember(section: Section, url: string, add: Add): void {
  for (const key of OF_HUB)
    if (section[key] !== undefined) add(key, "is for a hub, and url makes this service a member");
  const { tls: files, tokenFile } = section;
  if (files?.clientCaFile !== undefined) add("tls.clientCaFile", "is for a hub: a member has caFile");
  if ((files?.certFile === undefined) !== (files?.keyFile === undefined))
    add("tls", "certFile and keyFile go together");
  if (files !== undefined && url.startsWith("http:")) add("tls", "is only for an https:// URL");
  if (files?.certFile === undefined && tokenFile === undefined) {
    add([], "needs tls.certFile or tokenFile: the hub must know who asks");
  }
}

interface Others {
  readonly hub?: Section | undefined;
  readonly approvals: {
    readonly store?: string | undefined;
    readonly storeUrlFile?: string | undefined;
    readonly webhooks: readonly unknown[];
  };
  readonly server: { readonly console?: unknown; readonly workers: number };
  readonly jwt: {
    readonly issuers: readonly {
      readonly issuer: string;
      readonly audience: string | readonly string[];
      readonly tenants?: IssuerTenants | undefined;
    }[];
  };
  readonly tenants?: Readonly<Record<string, unknown>> | undefined;
}

/** Reports settings of other sections that a hub needs, and those that a member does not have. */
export function checkHubSection(
  { hub: section, approvals, server, jwt, tenants = {} }: Others,
  context: z.core.$RefinementCtx,
): void {
  if (section === undefined) return;
  const add = problemAdder(context);
  const storeKey = approvals.store === undefined ? "approvals.storeUrlFile" : "approvals.store";
  const hasStore = approvals.store !== undefined || approvals.storeUrlFile !== undefined;
  if (section.listen !== undefined) {
    if (!hasStore) add("hub.listen", "needs approvals.store (or storeUrlFile), which the members share");
    for (const [index, { issuer, audience }] of (section.tokens ?? []).entries()) {
      const isShared = jwt.issuers.some(
        (one) => one.issuer === issuer && [one.audience].flat().some((each) => [audience].flat().includes(each)),
      );
      // A token of an agent must not make its holder a member.
      if (isShared) add(["hub", "tokens", index, "audience"], "is also that of the issuer's tokens in jwt.issuers");
    }
    for (const [index, { tenant, issuers = [] }] of (section.members ?? []).entries()) {
      const isUnknown = tenant !== undefined && !Object.hasOwn(tenants, tenant);
      if (isUnknown) add(["hub", "members", index, "tenant"], "is not in tenants");
      for (const [at, named] of issuers.entries()) {
        const known = jwt.issuers.filter(({ issuer }) => issuer === named);
        const isOther = known.length > 0 && !known.some((issuer) => speaksFor(issuer, tenant));
        if (isOther && !isUnknown) add(["hub", "members", index, "issuers", at], foreignIssuer(tenant));
      }
    }
    return;
  }
  if (Object.keys(tenants).length > 0) {
    add(
      "hub.url",
      "cannot be combined with tenants: a member of a hub belongs to one tenant, set by hub.tenant here and by hub.members[].tenant at the hub",
    );
  }
  for (const [index, issuer] of jwt.issuers.entries()) {
    if (section.tenant === undefined || speaksFor(issuer, section.tenant)) continue;
    add(["jwt", "issuers", index, "tenants"], `does not name ${section.tenant}, the tenant in hub.tenant`);
  }
  if (hasStore) add(storeKey, "must be left out: a member of a hub shares the hub's database");
  if (approvals.webhooks.length > 0)
    add("approvals.webhooks", "must be left out: the hub notifies, and receives decisions");
  if (server.console !== undefined) add("server.console", "must be left out: operators sign in to the hub's console");
  if (server.workers > 1)
    add("server.workers", "must be 1: each process of a member has a log and connections of its own");
}

function foreignIssuer(tenant: string | undefined): string {
  return tenant === undefined
    ? "is an issuer of tenants in jwt.issuers: the member needs a tenant"
    : `is an issuer in jwt.issuers that does not speak for the tenant ${tenant}`;
}
