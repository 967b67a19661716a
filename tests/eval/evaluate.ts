import { evasionScores, falseAlarms, scores, survivors } from "./measure.ts";

const PER_KIND = 5_000;
const PER_PAIR = 200;
const MACHINE_CHARS = 8 * 2 ** 20;
const PLANTED = 10_000;

const percent = (share: number) => `${(share * 100).toFixed(2).padStart(6)} %`;

console.log(`kind            precision    recall   (${PER_KIND} values each)`);
for (const { kind, precision, recall } of scores(PER_KIND)) {
  console.log(`${kind.padEnd(16)}${percent(precision)}  ${percent(recall)}`);
}

console.log(`\nways of writing  (${PER_PAIR} values for each kind; only what is below 100 % or not expected)`);
for (const { evasion, kind, isExpected, recall } of evasionScores(PER_PAIR)) {
  if (isExpected && recall === 1) continue;
  console.log(`${evasion.padEnd(28)}${kind.padEnd(16)}${percent(recall)}${isExpected ? "" : "  not expected"}`);
}

const { megabytes, found } = falseAlarms(MACHINE_CHARS);
console.log(`\nfalse alarms: ${found.length} in ${megabytes.toFixed(1)} MiB`);
for (const alarm of found.slice(0, 20)) console.log(`  ${JSON.stringify(alarm)}`);

console.log(`\nof ${PLANTED} values planted in a tree survived: ${survivors(PLANTED).length}`);
