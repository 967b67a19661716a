import { describe, expect, test } from "bun:test";
import { ISSUER, problemsOf, read } from "./reading.ts";

const TLS = { certFile: "./hub.crt", keyFile: "./hub.key", clientCaFile: "./ca.pem" };
const TOKENS = [{ issuer: "https://k8s.test", audience: "stc-hub", jwksUri: "https://k8s.test/keys" }];
const STORE = { approvals: { store: "sqlite://./approvals.sqlite" } };
const hub = (changes: object = {}, others: object = STORE) => ({
  hub: { listen: { host: "0.0.0.0" }, tls: TLS, members: [{ certificate: "spiffe://acme.test/*" }], ...changes },
  ...others,
});
/** Issuers of two tenants, and one of the service itself. */
const TENANTS = {
  ...STORE,
  tenants: { acme: { tools: ["./acme"] }, globex: { tools: ["./globex"] } },
  jwt: {
    issuers: [
      { ...ISSUER, tenants: { names: ["acme", "globex"] } },
      { issuer: "https://acme.test", jwksUri: "https://acme.test/keys", tenants: { names: ["acme"] } },
      { issuer: "https://own.test", jwksUri: "https://own.test/keys" },
    ],
  },
};
const ofTenant = (tenant: string | undefined, ...issuers: readonly string[]) => ({
  certificate: "spiffe://acme.test/*",
  ...(tenant !== undefined && { tenant }),
  issuers,
});
const member = (changes: object = {}, others: object = {}) => ({
  hub: { url: "https://hub.test:9789", tokenFile: "./token", ...changes },
  ...others,
});

describe("the section hub", () => {
  test.each([
    ["a hub with certificates", hub()],
    [
      "a hub with workload tokens",
      hub({ tokens: TOKENS, members: [{ subject: "agent-*", tokenIssuer: "https://k8s.test" }] }),
    ],
    ["a hub on loopback without TLS", hub({ listen: {}, tls: undefined, tokens: TOKENS, members: [{ subject: "*" }] })],
    ["a hub with PostgreSQL", hub({}, { approvals: { storeUrlFile: "./url" } })],
    [
      "members of tenants, with issuers that speak for these and issuers that no agent of the hub has",
      hub(
        {
          members: [
            ofTenant("acme", ISSUER.issuer, "https://acme.test"),
            ofTenant("globex", ISSUER.issuer, "https://elsewhere.test"),
            ofTenant(undefined, "https://own.test"),
            { certificate: "b", tenant: "globex" },
          ],
        },
        TENANTS,
      ),
    ],
    ["a member with a token", member()],
    [
      "a member with a certificate",
      member({ tokenFile: undefined, tls: { certFile: "./a.crt", keyFile: "./a.key", caFile: "./ca" } }),
    ],
    ["a member on loopback without TLS", member({ url: "http://127.0.0.1:9789" })],
    [
      "a member of a tenant",
      member({ tenant: "acme" }, { jwt: { issuers: [{ ...ISSUER, tenants: { names: ["acme"] } }] } }),
    ],
  ])("accepts %s", (_title, sections) => {
    expect(problemsOf(sections)).toEqual([]);
  });

  test("is neither a hub nor a member by default", () => {
    expect(read({}).hub).toBeUndefined();
  });

  test.each([
    ["nothing", { hub: {} }, ["hub: needs listen (a hub) or url (a member)"]],
    [
      "both ends",
      hub({ url: "https://hub.test:9789" }),
      ["hub.url: is for a member, and listen makes this service a hub"],
    ],
    [
      "a hub without a store, members and TLS",
      { hub: { listen: { host: "0.0.0.0" } } },
      [
        "hub.tls: is missing: without TLS, the hub listens on loopback only, not on 0.0.0.0",
        "hub.members: is missing: without it, nobody may connect",
        "hub.listen: needs approvals.store (or storeUrlFile), which the members share",
      ],
    ],
    [
      "a hub without a store",
      hub({}, {}),
      ["hub.listen: needs approvals.store (or storeUrlFile), which the members share"],
    ],
    [
      "a hub with a member's keys",
      hub({ tokenFile: "./t" }),
      ["hub.tokenFile: is for a member, and listen makes this service a hub"],
    ],
    [
      "certificates without an authority",
      hub({ tls: { certFile: "./a", keyFile: "./b" } }),
      ["hub.members[0].certificate: needs hub.tls.clientCaFile, which is missing"],
    ],
    [
      "subjects without issuers of tokens",
      hub({ members: [{ subject: "a", tokenIssuer: "https://x.test" }, {}] }),
      [
        "hub.members[1]: needs exactly one of certificate, subject",
        "hub.members[0].subject: needs hub.tokens, which is missing",
        "hub.members[0].tokenIssuer: is not an issuer in hub.tokens",
      ],
    ],
    [
      "the audience of agents",
      {
        ...hub({ tokens: [{ ...TOKENS[0], issuer: "https://idp.test", audience: "safe-tool-call" }] }),
      },
      ["hub.tokens[0].audience: is also that of the issuer's tokens in jwt.issuers"],
    ],
    [
      "members of a tenant that there is not, and with issuers of others",
      hub(
        {
          members: [
            ofTenant("initech", ISSUER.issuer),
            ofTenant("globex", ISSUER.issuer, "https://acme.test"),
            ofTenant("acme", "https://own.test"),
            ofTenant(undefined, ISSUER.issuer),
          ],
        },
        TENANTS,
      ),
      [
        "hub.members[0].tenant: is not in tenants",
        "hub.members[1].issuers[1]: is an issuer in jwt.issuers that does not speak for the tenant globex",
        "hub.members[2].issuers[0]: is an issuer in jwt.issuers that does not speak for the tenant acme",
        "hub.members[3].issuers[0]: is an issuer of tenants in jwt.issuers: the member needs a tenant",
      ],
    ],
    [
      "a tenant of members where there are none",
      hub({ members: [{ certificate: "a", tenant: "acme" }] }),
      ["hub.members[0].tenant: is not in tenants"],
    ],
    [
      "a member without credentials",
      member({ tokenFile: undefined }),
      ["hub: needs tls.certFile or tokenFile: the hub must know who asks"],
    ],
    [
      "a member over plain http",
      member({ url: "http://hub.test:9789" }),
      ["hub.url: must be https: approvals and tokens are sent there"],
    ],
    [
      "a hub of one tenant",
      hub({ tenant: "acme" }),
      ["hub.tenant: is for a member, and listen makes this service a hub"],
    ],
    [
      "a member of a tenant for which its issuer does not speak",
      member(
        { tenant: "acme" },
        {
          jwt: {
            issuers: [
              { ...ISSUER, tenants: { names: ["globex"] } },
              { ...ISSUER, issuer: "https://own.test" },
            ],
          },
        },
      ),
      [
        "jwt.issuers[0].tenants: does not name acme, the tenant in hub.tenant",
        "jwt.issuers[1].tenants: does not name acme, the tenant in hub.tenant",
      ],
    ],
    ["a URL with a path", member({ url: "https://hub.test/x" }), ["hub.url: must end after the host and the port"]],
    [
      "a member with a hub's keys",
      member({ members: [{ subject: "a" }] }),
      ["hub.members: is for a hub, and url makes this service a member"],
    ],
    [
      "a member with a store, webhooks, a console and workers",
      member(
        {},
        {
          approvals: {
            ...STORE.approvals,
            webhooks: [{ name: "a", url: "https://a.test", secretFile: "./secret" }],
          },
          server: { console: {}, workers: 2 },
        },
      ),
      [
        "approvals.store: must be left out: a member of a hub shares the hub's database",
        "approvals.webhooks: must be left out: the hub notifies, and receives decisions",
        "server.console: must be left out: operators sign in to the hub's console",
        "server.workers: must be 1: each process of a member has a log and connections of its own",
      ],
    ],
  ])("refuses %s, with every reason", (_title, sections, problems) => {
    expect(problemsOf(sections)).toEqual(problems);
  });
});
