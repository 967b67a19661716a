import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { KNOWN_CUSTOMERS } from "../../src/cli/development/customers.ts";
import { freePorts } from "../support/ports.ts";
import { environmentOf, runStc, STC } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/**
 * Draws `docs/images/terminal.svg` from what the commands print now: `bun run docs:terminal`. A governed call, a call that asks a
 * person, and the audit of both, in the development service.
 */
const port = freePorts();
const env = { STC_PORT: String(port) };

async function stc(...args: readonly string[]): Promise<string> {
  const { code, out, err } = await runStc(args, { env });
  if (out === "") throw new Error(`stc ${args.join(" ")}: ${code}: ${err}`);
  return out;
}

const COLUMNS = 100;
const LINE = 18;
const CHARACTER = 7.83;
const PADDING = 16;
const COLOURS = { prompt: "#7ee787", command: "#f0f6fc", output: "#b1bac4" } as const;

type Line = readonly [colour: keyof typeof COLOURS, text: string];

const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function drawn(lines: readonly Line[]): string {
  const width = Math.ceil(COLUMNS * CHARACTER + 2 * PADDING);
  const height = lines.length * LINE + 2 * PADDING;
  const rows = lines.map(([colour, text], index) => {
    const y = PADDING + (index + 1) * LINE - 5;
    const prompt = colour === "command" ? `<tspan fill="${COLOURS.prompt}">$ </tspan>` : "";
    return `<text x="${PADDING}" y="${y}" fill="${COLOURS[colour]}" xml:space="preserve">${prompt}${escaped(text)}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<rect width="100%" height="100%" rx="8" fill="#0d1117"/>`,
    `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="13">`,
    ...rows,
    "</g>",
    "</svg>",
    "",
  ].join("\n");
}

/** An answer without the lines between those that match, with "…" in their place, each as wide as the picture. */
function shortened(answer: string, kept: RegExp): readonly Line[] {
  const lines = answer.trimEnd().split("\n");
  const isKept = (line: string | undefined): boolean => line !== undefined && kept.test(line);
  return lines.flatMap((line, index): Line[] => {
    if (isKept(line)) return [["output", line.length > COLUMNS ? `${line.slice(0, COLUMNS - 1)}…` : line]];
    const indent = /^ */.exec(line)?.[0] ?? "";
    return isKept(lines[index - 1]) ? [["output", `${indent}…`]] : [];
  });
}

const service = Bun.spawn([...STC, "serve", "--dev"], {
  cwd: PROJECT,
  env: environmentOf(env),
  stdio: ["ignore", "ignore", "ignore"],
});
try {
  await until("the service", async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    return answer?.ok === true ? true : undefined;
  });
  const token = join(PROJECT, "var/picture.token");
  writeFileSync(
    token,
    await stc("token", "--sub", "agent-7", "--permission", "customer-data:read", "--permission", "workspace:bash"),
  );
  const customer = JSON.stringify({ customerId: KNOWN_CUSTOMERS.johnSmith });
  const read = await stc("call", "get_customer", customer, "--token-file", token);
  const command = JSON.stringify({ command: "git push --force origin main" });
  const asked = await stc("call", "bash", command, "--token-file", token);
  const tail = await stc("audit", "tail", "--sub", "agent-7", "--lines", "2");
  const lines: Line[] = [
    ["command", `stc call get_customer '${customer}'`],
    ...shortened(
      read,
      /^[{}]|"(?:status|untrusted|result|customer|customerId|fullName|filteredFields|traceId)"|customer\.\w|^ {2,4}[\]}]/,
    ),
    ["output", ""],
    ["command", `stc call bash '${command}'`],
    ...shortened(asked, /^[{}]|"(?:status|approval|id|message|traceId)"|^ {2}\}/),
    ["output", ""],
    ["command", "stc audit tail --sub agent-7 --lines 2"],
    ...shortened(tail, /./),
  ];
  console.log(lines.map(([, line]) => line).join("\n"));
  writeFileSync(join(PROJECT, "docs/images/terminal.svg"), drawn(lines));
} finally {
  service.kill();
  await service.exited;
}
