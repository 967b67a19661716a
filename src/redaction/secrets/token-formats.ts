import {
  ALPHANUMERIC,
  BASE64URL,
  DASH,
  DIGIT,
  DOLLAR,
  DOT,
  EQUALS,
  HEX,
  LOWER,
  PERCENT,
  PLUS_SLASH,
  STOP,
  UNDERSCORE,
  UPPER,
  WORD,
} from "../views/characters.ts";

/** A vendor's credential that a prefix gives away. */
export interface TokenFormat {
  readonly rule: string;
  readonly prefix: string;
  /** What the rest is made of. */
  readonly classes: number;
  /** Characters after the prefix, at least. */
  readonly min: number;
  /** Exactly `min` characters, and then no further one. */
  readonly exact?: true;
  /** The prefix counts in the midst of a word and in any case. */
  readonly loose?: true;
  /** Classes of which a character must occur. */
  readonly needs?: readonly number[];
}

const BASE64_ANY = BASE64URL | PLUS_SLASH | EQUALS;
const DOTTED = BASE64URL | DOT;
const CRYPT = ALPHANUMERIC | PLUS_SLASH | DOT | DOLLAR | EQUALS;

type Options = Omit<TokenFormat, "rule" | "prefix" | "classes" | "min">;
/** Prefixes that share a shape, separated by blanks. */
type Row = readonly [rule: string, prefixes: string, classes: number, min: number, options?: Options];

const CLOUDS: readonly Row[] = [
  ["aws-access-key", "AKIA ASIA ABIA ACCA", UPPER | DIGIT, 16, { exact: true }],
  ["aws-bedrock-key", "ABSK", BASE64_ANY, 60],
  ["gcp-api-key", "AIza", BASE64URL, 30, { needs: [DIGIT | DASH] }],
  ["gcp-oauth-token", "ya29.", DOTTED, 20],
  ["gcp-oauth-secret", "GOCSPX-", BASE64URL, 20],
  ["gcp-refresh-token", "1//0", BASE64URL, 30, { needs: [DIGIT, UPPER] }],
  ["alibaba-access-key", "LTAI", ALPHANUMERIC, 16, { needs: [DIGIT] }],
  ["tencent-secret-id", "AKID", ALPHANUMERIC, 32, { exact: true }],
  ["digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", HEX, 40],
  ["cloudflare-origin-ca-key", "v1.0-", HEX | DASH, 60],
  ["cloudflare-token", "cfut_ cfat_ cfk_", ALPHANUMERIC, 30],
  ["databricks-token", "dapi", HEX, 32],
  ["heroku-key", "HRKU-", BASE64URL, 30],
  ["fly-token", "fo1_ fm1r_ fm1a_ fm2_", BASE64_ANY, 30],
  ["netlify-token", "nfp_", ALPHANUMERIC, 30],
  ["supabase-token", "sbp_ sb_secret_", BASE64URL, 20, { needs: [DIGIT] }],
  ["planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", DOTTED | EQUALS, 30],
  ["neon-key", "napi_", ALPHANUMERIC, 32],
  ["vault-token", "hvs. hvb. hvr.", BASE64URL, 20],
  ["doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", DOTTED, 30],
  ["pulumi-token", "pul-", HEX, 40],
  ["scalingo-token", "tk-us-", BASE64URL, 40],
  ["tailscale-key", "tskey-", BASE64URL, 20, { needs: [DIGIT] }],
  ["1password-token", "ops_eyJ", BASE64_ANY, 60],
  ["1password-secret-key", "A3-", UPPER | DIGIT | DASH, 30],
  ["confluent-key", "cflt", BASE64_ANY, 50, { needs: [DIGIT, UPPER] }],
  ["aws-bedrock-key", "bedrock-api-key-", BASE64_ANY, 60],
  ["gcp-api-key", "AQ.", BASE64URL, 40, { needs: [DIGIT, UPPER] }],
  ["vercel-token", "vcp_ vci_ vca_ vcr_ vck_", ALPHANUMERIC, 24, { needs: [DIGIT] }],
  ["render-key", "rnd_", ALPHANUMERIC, 28, { needs: [DIGIT, UPPER] }],
  ["trigger-dev-key", "tr_prod_ tr_stg_", ALPHANUMERIC, 20, { needs: [DIGIT] }],
  ["inngest-key", "signkey-prod- signkey-test-", HEX, 32],
  ["aws-session-token", "IQoJb3JpZ2luX2Vj", BASE64_ANY, 80],
  ["gcp-hmac-key", "GOOG1E", UPPER | DIGIT, 55, { exact: true }],
  ["yandex-key", "AQVN", BASE64URL, 35, { needs: [DIGIT, UPPER] }],
  ["yandex-token", "y0_", BASE64URL, 50, { needs: [DIGIT, UPPER] }],
  ["yandex-token", "t1.", DOTTED | EQUALS, 120, { needs: [DIGIT, UPPER] }],
  ["fernet-token", "gAAAAAB", BASE64URL | EQUALS, 80, { needs: [DIGIT, UPPER] }],
  ["mongodb-atlas-secret", "mdb_sa_sk_", BASE64URL, 30],
];

const FORGES: readonly Row[] = [
  ["github-token", "ghp_ gho_ ghu_ ghs_ ghr_", ALPHANUMERIC, 36, { loose: true }],
  ["github-token", "github_pat_", WORD, 36, { loose: true }],
  [
    "gitlab-token",
    "glpat- gldt- glrt- glrtr- glptt- glft- glsoat- glcbt- glimt- glagent- glffct- glwt- gloas-",
    DOTTED,
    20,
  ],
  ["gitlab-runner-token", "GR1348941", BASE64URL, 20],
  ["bitbucket-token", "ATBB", ALPHANUMERIC, 28, { needs: [DIGIT] }],
  ["atlassian-token", "ATATT3 ATCTT3", BASE64URL | EQUALS, 40],
  ["npm-token", "npm_", ALPHANUMERIC, 36, { loose: true }],
  ["pypi-token", "pypi-AgE", BASE64URL, 50, { loose: true }],
  ["crates-io-token", "cio", ALPHANUMERIC, 32, { exact: true, needs: [DIGIT, UPPER] }],
  ["rubygems-key", "rubygems_", HEX, 48],
  ["docker-token", "dckr_pat_ dckr_oat_", BASE64URL, 20],
  ["nuget-key", "oy2", LOWER | DIGIT, 43, { exact: true, needs: [DIGIT] }],
  ["clojars-token", "CLOJARS_", HEX, 60],
  ["jfrog-key", "AKCp", ALPHANUMERIC, 60],
  ["jfrog-reference-token", "cmVmdGtu", ALPHANUMERIC, 50],
  ["circleci-token", "CCIPAT_ CCIPRJ_", WORD, 30],
  ["buildkite-token", "bkua_", ALPHANUMERIC, 32],
  ["sonar-token", "squ_ sqp_ sqa_", HEX, 40],
  ["hashicorp-terraform-token", "TFC-", DOTTED, 40],
  ["octopus-key", "API-", UPPER | DIGIT, 25, { needs: [DIGIT] }],
  ["sentry-token", "sntrys_ sntryu_", BASE64_ANY, 40],
  ["grafana-token", "glc_ glsa_", BASE64_ANY, 32, { needs: [DIGIT] }],
  ["grafana-token", "eyJrIjoi", BASE64_ANY, 60],
  ["datadog-key", "ddapi_ ddapp_", ALPHANUMERIC, 30, { needs: [DIGIT] }],
  ["honeycomb-key", "hcaik_ hcalk_ hcamk_", ALPHANUMERIC, 40],
  ["new-relic-key", "NRAK- NRJS- NRII- NRRA- NRSP-", BASE64URL, 19, { needs: [DIGIT] }],
  ["dynatrace-token", "dt0c01. dt0s01. dt0s16.", DOTTED, 60],
  ["harness-token", "pat.", DOTTED, 60, { needs: [DIGIT, UPPER] }],
  ["postman-key", "PMAK-", HEX | DASH, 50],
  ["prefect-key", "pnu_", ALPHANUMERIC, 36],
  ["infracost-key", "ico-", ALPHANUMERIC, 32, { exact: true, needs: [DIGIT] }],
];

const MODELS: readonly Row[] = [
  ["anthropic-key", "sk-ant-", BASE64URL, 20, { loose: true }],
  ["openai-key", "sk-", ALPHANUMERIC, 20],
  ["openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", BASE64URL, 20],
  ["openrouter-key", "sk-or-v1- sk-or-", BASE64URL, 30],
  ["model-provider-key", "sk-", BASE64URL, 32, { needs: [DIGIT, UPPER] }],
  ["hugging-face-token", "hf_ api_org_", ALPHANUMERIC, 30, { needs: [UPPER] }],
  ["groq-key", "gsk_", ALPHANUMERIC, 32],
  ["xai-key", "xai-", ALPHANUMERIC, 40],
  ["perplexity-key", "pplx-", ALPHANUMERIC, 40],
  ["replicate-token", "r8_", ALPHANUMERIC, 30],
  ["fireworks-key", "fw_", ALPHANUMERIC, 20, { needs: [DIGIT, UPPER] }],
  ["pinecone-key", "pcsk_", WORD, 30],
  ["langsmith-key", "lsv2_pt_ lsv2_sk_", WORD, 30],
  ["langfuse-key", "sk-lf- pk-lf-", HEX | DASH, 32],
  ["nvidia-key", "nvapi-", BASE64URL, 40],
  ["tavily-key", "tvly-", BASE64URL, 20, { needs: [DIGIT] }],
  ["elevenlabs-key", "sk_", HEX, 48],
  ["cerebras-key", "csk-", ALPHANUMERIC, 40],
  ["helicone-key", "sk-helicone- sk-helicone-eu-", BASE64URL, 31, { needs: [DIGIT] }],
  ["firecrawl-key", "fc-", HEX, 32, { exact: true }],
  ["jina-key", "jina_", BASE64URL, 50],
  ["e2b-key", "e2b_", HEX, 40],
  ["browserbase-key", "bb_live_ bb_test_", BASE64URL, 20, { needs: [DIGIT] }],
  ["cursor-key", "key_", HEX, 64, { exact: true }],
  ["sourcegraph-token", "sgp_", WORD, 40, { needs: [DIGIT] }],
  ["google-oauth-code", "4/0A", BASE64URL, 40],
];

const MONEY: readonly Row[] = [
  ["stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", ALPHANUMERIC, 10, { loose: true }],
  ["stripe-webhook-secret", "whsec_", BASE64_ANY, 20],
  ["square-token", "EAAA sq0atp- sq0csp- sq0csb- sq0idp-", BASE64URL, 22, { needs: [DIGIT, UPPER] }],
  ["paypal-braintree-token", "access_token$production$ access_token$sandbox$", ALPHANUMERIC | DOLLAR, 30],
  ["plaid-token", "access-sandbox- access-production- access-development-", HEX | DASH, 36],
  ["shopify-token", "shpat_ shpca_ shppa_ shpss_", HEX, 32],
  ["easypost-key", "EZAK EZTK", ALPHANUMERIC, 50],
  ["flutterwave-key", "FLWSECK_TEST- FLWSECK-", BASE64URL, 12],
  ["shippo-token", "shippo_live_ shippo_test_", HEX, 40],
  ["duffel-token", "duffel_live_ duffel_test_", BASE64URL | EQUALS, 40],
];

const MESSAGING: readonly Row[] = [
  [
    "slack-token",
    "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xoxe. xoxd- xoxc- xapp-",
    DOTTED | PERCENT,
    16,
    { loose: true },
  ],
  ["twilio-key", "SK", HEX, 32, { exact: true }],
  ["sendgrid-key", "SG.", DOTTED, 60],
  ["mailgun-key", "key-", HEX, 32, { exact: true }],
  ["brevo-key", "xkeysib- xsmtpsib-", BASE64URL, 60],
  ["facebook-token", "EAA", ALPHANUMERIC, 80, { needs: [DIGIT, UPPER] }],
  ["linear-key", "lin_api_ lin_oauth_", ALPHANUMERIC, 32],
  ["notion-token", "secret_", ALPHANUMERIC, 43, { exact: true, needs: [DIGIT, UPPER] }],
  ["notion-token", "ntn_", ALPHANUMERIC, 40],
  ["figma-token", "figd_ figu_ figo_", BASE64URL, 36],
  ["hubspot-token", "pat-na1- pat-na2- pat-na3- pat-eu1- pat-ap1-", HEX | DASH, 32],
  ["typeform-token", "tfp_", DOTTED | EQUALS, 40],
  ["contentful-token", "CFPAT-", BASE64URL, 40],
  ["frame-io-token", "fio-u-", BASE64URL | EQUALS, 60],
  ["readme-key", "rdme_", LOWER | DIGIT, 60],
  ["mapbox-token", "sk.eyJ", DOTTED, 40],
  ["dropbox-token", "sl.", BASE64URL | DOT, 100, { needs: [DIGIT, UPPER] }],
  ["launchdarkly-key", "sdk- api-", HEX | DASH, 36, { exact: true, needs: [DIGIT] }],
  ["adobe-secret", "p8e-", ALPHANUMERIC, 32],
  ["settlemint-token", "sm_pat_ sm_aat_ sm_sat_", ALPHANUMERIC, 16],
  ["posthog-personal-key", "phx_", ALPHANUMERIC, 40, { needs: [DIGIT] }],
  ["resend-key", "re_", WORD, 32, { needs: [DIGIT, UPPER] }],
  ["intercom-token", "dG9rO", BASE64_ANY, 50, { needs: [DIGIT, UPPER] }],
  ["firebase-token", "APA91b", BASE64URL, 100, { loose: true }],
  ["x-bearer-token", "AAAAAAAAAAAAAAAAAAAA", ALPHANUMERIC | PERCENT, 80, { needs: [DIGIT, LOWER] }],
  ["age-secret-key", "AGE-SECRET-KEY-", UPPER | LOWER | DIGIT, 20, { loose: true }],
];

/** Hashes of passwords, as crypt writes them: guessed in hours when they are known. */
const HASHES: readonly Row[] = [
  ["password-hash", "$2a$ $2b$ $2y$", CRYPT, 55],
  ["password-hash", "$1$ $apr1$", CRYPT, 25],
  ["password-hash", "$5$ $6$ $y$ $7$", CRYPT, 45],
  [
    "password-hash",
    "$argon2id$ $argon2i$ $pbkdf2-sha256$ $pbkdf2-sha512$ $scrypt$",
    CRYPT | DASH | UNDERSCORE | STOP,
    40,
  ],
];

export const TOKEN_FORMATS: readonly TokenFormat[] = [CLOUDS, FORGES, MODELS, MONEY, MESSAGING, HASHES]
  .flat()
  .flatMap(([rule, prefixes, classes, min, options]) =>
    prefixes.split(" ").map((prefix) => ({ rule, prefix, classes, min, ...options })),
  );
