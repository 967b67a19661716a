import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { isSynchronous, isText, unknownKeys, unless } from "./checks.ts";

const FIELD = "target.cli.confinement";
const KEYS = ["reads", "writes", "network", "runs", "temporaryDirectory"];
const PORT_MAX = 65_535;

/** What is wrong with a manifest's `target.cli.confinement`. One that is built from the input is looked at when it is built. */
export function confinementFaults(confinement: unknown): readonly Fault[] {
  if (confinement === undefined) return [];
  if (typeof confinement === "function") {
    return unless(isSynchronous(confinement), FIELD, "must be a table, or a function of the input, and not async");
  }
  if (!isTable(confinement)) return [{ field: FIELD, message: "must be { reads?, writes?, network?, runs?, … }" }];
  const { reads, writes, network, runs, temporaryDirectory } = confinement;
  return [
    ...unknownKeys(FIELD, confinement, KEYS),
    ...unless(isPaths(reads), `${FIELD}.reads`, "must list absolute paths"),
    ...unless(isPaths(writes), `${FIELD}.writes`, "must list absolute paths"),
    ...unless(isNetwork(network), `${FIELD}.network`, `must be "system", or list TCP ports from 1 to ${PORT_MAX}`),
    ...unless(
      runs === undefined || runs === "command" || runs === "system",
      `${FIELD}.runs`,
      'must be "command" or "system"',
    ),
    ...unless(
      temporaryDirectory === undefined || typeof temporaryDirectory === "boolean",
      `${FIELD}.temporaryDirectory`,
      "must be true or false",
    ),
  ];
}

function isPaths(paths: unknown): boolean {
  if (paths === undefined) return true;
  return Array.isArray(paths) && paths.every((path) => isText(path) && path.startsWith("/") && !path.includes("\0"));
}

function isNetwork(network: unknown): boolean {
  if (network === undefined || network === "system") return true;
  const isPort = (port: unknown): boolean => Number.isInteger(port) && Number(port) >= 1 && Number(port) <= PORT_MAX;
  return Array.isArray(network) && network.every(isPort);
}
