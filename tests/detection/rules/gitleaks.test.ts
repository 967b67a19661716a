import { describe, expect, test } from "bun:test";
import { findSensitive } from "../../../src/detection/sensitive.ts";

/**
 * Characters of made-up examples: `<h40>` in a template is 40 hexadecimal digits. The tables below have the 222 rules of gitleaks
 * (`config/gitleaks.toml` of July 2026), each with the rule of ours that finds the same.
 */
const FILLERS = {
  h: "0a1b2c3d4e5f6789",
  l: "a1b2c3d4e5f6g7h8j9k0",
  u: "A2B3C4D5E6F7G",
  a: "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY",
  c: "aBdEfGhJkLmNpQrStUvWxY",
  d: "1234567890",
  i: "0a1b2c3d-4e5f-4a1b-8c3d-4e5f6a7b8c9d",
} as const;

function filled(template: string): string {
  return template.replace(/<([a-z])(\d+)>/g, (_all, kind: keyof typeof FILLERS, length: string) =>
    FILLERS[kind].repeat(20).slice(0, Number(length)),
  );
}

/** Tokens that their format shows, by our rule: gitleaks' rule and a text. `«»` marks what is found in a longer text. */
const BY_FORMAT: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "1password-secret-key": { "1password-secret-key": "A3-<u6>-<u11>-<u5>-<u5>-<u5>" },
  "1password-token": { "1password-service-account-token": "ops_eyJ<a250>" },
  "adobe-secret": { "adobe-client-secret": "p8e-<l32>" },
  "age-secret-key": { "age-secret-key": "AGE-SECRET-KEY-1<u58>" },
  "airtable-token": { "airtable-personnal-access-token": "pat<a14>.<h64>" },
  "alibaba-access-key": { "alibaba-access-key-id": "LTAI<l20>" },
  "anthropic-key": {
    "anthropic-admin-api-key": "sk-ant-admin01-<a93>AA",
    "anthropic-api-key": "sk-ant-api03-<a93>AA",
  },
  "jfrog-key": { "artifactory-api-key": "AKCp<a69>" },
  "jfrog-reference-token": { "artifactory-reference-token": "cmVmdGtu<a56>" },
  "authress-key": { "authress-service-client-access-key": "sc_<l12>.<l4>.acc_<l12>.<a40>" },
  "aws-access-key": { "aws-access-token": "AKIA<u16>" },
  "aws-bedrock-key": {
    "aws-amazon-bedrock-api-key-long-lived": "ABSK<a120>",
    "aws-amazon-bedrock-api-key-short-lived": "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t<a80>",
  },
  "azure-client-secret": { "azure-ad-client-secret": "abC8Q~<a34>" },
  "clickhouse-key": { "clickhouse-cloud-api-secret-key": "4b1d<a38>" },
  "clojars-token": { "clojars-api-token": "CLOJARS_<h60>" },
  "cloudflare-origin-ca-key": { "cloudflare-origin-ca-key": "v1.0-<h24>-<h146>" },
  "authorization-header": { "curl-auth-header": "curl -H 'Authorization: Bearer «<a24>»' https://h.example" },
  "curl-user": { "curl-auth-user": "curl -u ann:«<a12>» https://h.example" },
  "databricks-token": { "databricks-api-token": "dapi<h32>" },
  "defined-networking-key": { "defined-networking-api-token": "dnkey-<l26>-<l52>" },
  "digitalocean-token": {
    "digitalocean-access-token": "doo_v1_<h64>",
    "digitalocean-pat": "dop_v1_<h64>",
    "digitalocean-refresh-token": "dor_v1_<h64>",
  },
  "doppler-token": { "doppler-api-token": "dp.pt.<a43>" },
  "dropbox-token": { "dropbox-short-lived-api-token": "sl.<a135>" },
  "duffel-token": { "duffel-api-token": "duffel_live_<a43>" },
  "dynatrace-token": { "dynatrace-api-token": "dt0c01.<u24>.<u64>" },
  "easypost-key": { "easypost-api-token": "EZAK<a54>", "easypost-test-api-token": "EZTK<a54>" },
  "facebook-token": {
    "facebook-access-token": "access_token=«<d16>|<a27>»",
    "facebook-page-access-token": "EAAM<a100>",
  },
  "flutterwave-key": {
    "flutterwave-encryption-key": "FLWSECK_TEST-<h12>",
    "flutterwave-secret-key": "FLWSECK_TEST-<h32>-X",
  },
  "fly-token": { "flyio-access-token": "fo1_<a43>" },
  "frame-io-token": { "frameio-api-token": "fio-u-<a64>" },
  "gcp-api-key": { "gcp-api-key": "AIza<a35>" },
  "github-token": {
    "github-app-token": "ghu_<a36>",
    "github-fine-grained-pat": "github_pat_<a82>",
    "github-oauth": "gho_<a36>",
    "github-pat": "ghp_<a36>",
    "github-refresh-token": "ghr_<a36>",
  },
  "gitlab-token": {
    "gitlab-cicd-job-token": "glcbt-<a2>_<a20>",
    "gitlab-deploy-token": "gldt-<a20>",
    "gitlab-feature-flag-client-token": "glffct-<a20>",
    "gitlab-feed-token": "glft-<a20>",
    "gitlab-incoming-mail-token": "glimt-<a25>",
    "gitlab-kubernetes-agent-token": "glagent-<a50>",
    "gitlab-oauth-app-secret": "gloas-<a64>",
    "gitlab-pat": "glpat-<a20>",
    "gitlab-pat-routable": "glpat-<a27>.01<l7>",
    "gitlab-ptt": "glptt-<h40>",
    "gitlab-runner-authentication-token": "glrt-<a20>",
    "gitlab-runner-authentication-token-routable": "glrt-t1_<a27>.01<l7>",
    "gitlab-scim-token": "glsoat-<a20>",
  },
  "gitlab-runner-token": { "gitlab-rrt": "GR1348941<a20>" },
  "gocardless-token": { "gocardless-api-token": "live_<a40>" },
  "grafana-token": {
    "grafana-api-key": "eyJrIjoi<a70>",
    "grafana-cloud-api-token": "glc_<a40>",
    "grafana-service-account-token": "glsa_<a32>_<h8>",
  },
  "harness-token": { "harness-api-key": "sat.<a22>.<a24>.<a20>" },
  "terraform-token": { "hashicorp-tf-api-token": "<a14>.atlasv1.<a66>" },
  "heroku-key": { "heroku-api-key-v2": "HRKU-AA<a58>" },
  "hugging-face-token": {
    "huggingface-access-token": "hf_<c34>",
    "huggingface-organization-api-token": "api_org_<c34>",
  },
  "infracost-key": { "infracost-api-token": "ico-<a32>" },
  "intra42-secret": { "intra42-client-secret": "s-s4t2ud-<h64>" },
  "secret-data": {
    "kubernetes-secret-yaml": "kind: Secret\nmetadata:\n  name: db\ndata:\n  extra: «aHVudGVyMnNlY3JldA==»",
  },
  jwt: {
    "jwt-base64": `«${btoa(filled("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.<a43>"))}»`,
    jwt: "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.<a43>",
  },
  "linear-key": { "linear-api-key": "lin_api_<l40>" },
  "lob-key": { "lob-api-key": "live_<h35>" },
  "mailchimp-key": { "mailchimp-api-key": "<h32>-us12" },
  "mailgun-key": { "mailgun-private-api-token": "key-<h32>" },
  "maxmind-key": { "maxmind-license-key": "<a6>_<a29>_mmk" },
  "webhook-url": {
    "microsoft-teams-webhook": "https://corp.webhook.office.com/webhookb2/«<i36>@<i36>/IncomingWebhook/<h32>/<i36>»",
    "slack-webhook-url": "https://hooks.slack.com/services/«T<u10>/B<u10>/<a24>»",
  },
  "new-relic-key": {
    "new-relic-browser-api-token": "NRJS-<h19>",
    "new-relic-insert-key": "NRII-<l32>",
    "new-relic-user-api-key": "NRAK-<u27>",
  },
  "notion-token": { "notion-api-token": "ntn_<d11><a35>" },
  "npm-token": { "npm-access-token": "npm_<a36>" },
  "octopus-key": { "octopus-deploy-api-key": "API-<u26>" },
  "openai-key": { "openai-api-key": "sk-proj-<a74>T3BlbkFJ<a74>" },
  "openshift-token": { "openshift-user-token": "sha256~<a43>" },
  "perplexity-key": { "perplexity-api-key": "pplx-<a48>" },
  "plaid-token": { "plaid-api-token": "access-sandbox-<i36>" },
  "planetscale-token": {
    "planetscale-api-token": "pscale_tkn_<a43>",
    "planetscale-oauth-token": "pscale_oauth_<a43>",
    "planetscale-password": "pscale_pw_<a43>",
  },
  "postman-key": { "postman-api-token": "PMAK-<h24>-<h34>" },
  "prefect-key": { "prefect-api-token": "pnu_<a36>" },
  "private-key": { "private-key": "-----BEGIN PRIVATE KEY-----\n<a64>\n-----END PRIVATE KEY-----" },
  "pulumi-token": { "pulumi-api-token": "pul-<h40>" },
  "pypi-token": { "pypi-upload-token": "pypi-AgEIcHlwaS5vcmc<a60>" },
  "readme-key": { "readme-api-token": "rdme_<l70>" },
  "rubygems-key": { "rubygems-api-token": "rubygems_<h48>" },
  "scalingo-token": { "scalingo-api-token": "tk-us-<a48>" },
  "sendgrid-key": { "sendgrid-api-token": "SG.<a22>.<a43>" },
  "brevo-key": { "sendinblue-api-token": "xkeysib-<h64>-<a16>" },
  "sentry-token": { "sentry-org-token": "sntrys_eyJpYXQiO<a80>_<a43>", "sentry-user-token": "sntryu_<h64>" },
  "settlemint-token": {
    "settlemint-application-access-token": "sm_aat_<a16>",
    "settlemint-personal-access-token": "sm_pat_<a16>",
    "settlemint-service-access-token": "sm_sat_<a16>",
  },
  "shippo-token": { "shippo-api-token": "shippo_live_<h40>" },
  "shopify-token": {
    "shopify-access-token": "shpat_<h32>",
    "shopify-custom-access-token": "shpca_<h32>",
    "shopify-private-app-access-token": "shppa_<h32>",
    "shopify-shared-secret": "shpss_<h32>",
  },
  "login-password": { "sidekiq-secret": "BUNDLE_ENTERPRISE__CONTRIBSYS__COM=<h8>:«<h8>»" },
  "url-password": { "sidekiq-sensitive-url": "https://<h8>:«<h8>»@gems.contribsys.com/" },
  "slack-token": {
    "slack-app-token": "xapp-1-<u11>-<d13>-<h64>",
    "slack-bot-token": "xoxb-<d12>-<d12>-<a24>",
    "slack-config-access-token": "xoxe.xoxp-1-<u163>",
    "slack-config-refresh-token": "xoxe-1-<u146>",
    "slack-legacy-bot-token": "xoxb-<d12>-<a24>",
    "slack-legacy-token": "xoxs-<d12>-<d12>-<d12>-<h32>",
    "slack-legacy-workspace-token": "xoxa-2-<a40>",
    "slack-user-token": "xoxp-<d12>-<d12>-<d12>-<h32>",
  },
  "sonar-token": { "sonar-api-token": "squ_<h40>" },
  "sourcegraph-token": { "sourcegraph-access-token": "sgp_<h16>_<h40>" },
  "square-token": { "square-access-token": "sq0atp-<a22>" },
  "stripe-key": { "stripe-access-token": "sk_live_<a24>" },
  "telegram-token": { "telegram-bot-api-token": "<d10>:AA<a33>" },
  "twilio-key": { "twilio-api-key": "SK<h32>" },
  "x-bearer-token": { "twitter-bearer-token": "AAAAAAAAAAAAAAAAAAAAAA<a90>" },
  "typeform-token": { "typeform-api-token": "tfp_<a59>" },
  "vault-token": { "vault-batch-token": "hvb.<a138>", "vault-service-token": "hvs.<a95>" },
  "yandex-key": { "yandex-api-key": "AQVN<a36>", "yandex-aws-access-token": "YC<a38>" },
  "yandex-token": { "yandex-access-token": "t1.<a120>.<a86>" },
  cookie: { "gitlab-session-cookie": "Cookie: «_gitlab_session=<h32>»" },
  "password-assignment": {
    "hashicorp-tf-password": 'administrator_login_password = "«<a12>»"',
    "nuget-config-password": '<add key="ClearTextPassword" value="«<a12>»" />',
  },
  "token-assignment": {
    "freemius-secret-key": "'secret_key' => '«sk_<a29>»'",
    "generic-api-key": "service_api_key = «<a24>»",
    "cohere-api-token": "CO_API_KEY=«<a40>»",
  },
};

/** Tokens without a format of their own: both find them by the name of their field, which here is gitleaks' name. By value. */
const BY_NAME: Readonly<Record<string, string>> = {
  "<l15>": "dropbox-api-token",
  "<l16>": "confluent-access-token linkedin-client-secret",
  "<l17>": "airtable-api-key",
  "<l20>": "finicity-client-secret finnhub-access-token",
  "<l22>": "travisci-access-token",
  "<l24>": "atlassian-api-token etsy-access-token looker-client-secret",
  "<h24>": "kucoin-access-token",
  "<l25>": "messagebird-api-token twitter-api-key",
  "<l26>": "mattermost-access-token",
  "<l30>": "alibaba-secret-key plaid-secret-key twitch-api-token",
  "<l32>":
    "adafruit-api-key algolia-api-key asana-client-secret bittrex-access-key bittrex-secret-key codecov-access-token " +
    "discord-client-secret droneci-access-token fastly-api-token flickr-access-token nytimes-access-token " +
    "privateai-api-token",
  "<h32>": "facebook-secret finicity-api-token linear-client-secret",
  "<h32>-<h8>-<h8>": "mailgun-signing-key",
  "<i36>": "heroku-api-key hubspot-api-key kucoin-secret-key snyk-api-token squarespace-access-token",
  "<h37>": "cloudflare-global-api-key",
  "<l40>": "cloudflare-api-key datadog-access-token gitter-access-token launchdarkly-access-token zendesk-secret-key",
  "<h40>": "cisco-meraki-api-key sendbird-access-token",
  "<l43>": "contentful-delivery-api-token netlify-access-token",
  "<l45>": "twitter-access-secret",
  "<d19>-<a30>": "twitter-access-token",
  "<l50>": "rapidapi-access-token twitter-api-secret",
  "<l60>": "intercom-api-key",
  "<h64>": "discord-api-token sentry-access-token",
  "<l64>":
    "bitbucket-client-secret coinbase-access-token confluent-secret-key freshbooks-access-token jfrog-identity-token " +
    "sumologic-access-token",
  "<l73>": "jfrog-api-key",
  "<l86>": "kraken-access-token",
  "00<a40>": "okta-access-token",
  "b_<l44>": "beamer-api-token",
  "<l11>AAAAAAAAAA<l43>": "dropbox-long-lived-api-token",
};

const NOT_OURS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    (
      "adobe-client-id asana-client-id bitbucket-client-id discord-client-id linkedin-client-id looker-client-id " +
      "messagebird-client-id plaid-client-id sendbird-access-id sumologic-access-id new-relic-user-api-id"
    )
      .split(" ")
      .map((id) => [id, "An identifier, which is not a secret without the secret next to it."]),
  ),
  "flutterwave-public-key": "Made to be public.",
  "lob-pub-api-key": "Made to be public.",
  "mailgun-pub-key": "Made to be public.",
  "mapbox-api-token": "Made to be public (`pk.`); `mapbox-token` finds the secret ones (`sk.`).",
  "pkcs12-file": "The name of a file, which says nothing about the text.",
};

describe("a token that gitleaks finds by its format", () => {
  const rows = Object.entries(BY_FORMAT).flatMap(([rule, examples]) =>
    Object.entries(examples).map(([id, template]) => [id, rule, filled(template)] as const),
  );
  test.each(rows)("%s is found by %s", (_id, rule, marked) => {
    const [before, secret, after] = marked.includes("«") ? marked.split(/[«»]/) : ["the token ", marked, " is new"];
    const start = before?.length ?? 0;
    expect(findSensitive(`${before}${secret}${after}`, "secrets")).toMatchObject([
      { rule, start, end: start + (secret?.length ?? 0) },
    ]);
  });
});

describe("a token that gitleaks finds by its name", () => {
  const rows = Object.entries(BY_NAME).flatMap(([template, ids]) =>
    ids.split(" ").map((id) => [id.replaceAll("-", "_"), filled(template)] as const),
  );
  test.each(rows)("%s", (name, secret) => {
    expect(findSensitive(`${name} = "${secret}"`, "secrets")).toMatchObject([
      {
        rule: expect.stringMatching(/^(?:token|key)-assignment$/),
        start: name.length + 4,
        end: name.length + 4 + secret.length,
      },
    ]);
  });
});

test("each of gitleaks' 222 rules is in one of the tables", () => {
  const ids = [
    ...Object.values(BY_FORMAT).flatMap((examples) => Object.keys(examples)),
    ...Object.values(BY_NAME).flatMap((ids) => ids.split(" ")),
    ...Object.keys(NOT_OURS),
  ];
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.length).toBe(222);
});
