import type { z } from "zod";
import { kafkaExporter } from "../../src/audit/export/kafka.ts";
import type { Receiver } from "../../src/audit/export/receiver.ts";

export type WrittenKafka = z.input<typeof kafkaExporter.settings>;

/** The receiver of an entry of `audit.export` of the type `kafka`. @throws {Error} with its problems */
export function openKafka(settings: WrittenKafka): Receiver {
  const problems: string[] = [];
  const receiver = kafkaExporter.open(kafkaExporter.settings.parse(settings), {
    path: (path) => path,
    clock: Date.now,
    problem: (setting, message) => problems.push(`${setting}: ${message}`),
  });
  if (receiver === undefined) throw new Error(problems.join("\n"));
  return receiver;
}
