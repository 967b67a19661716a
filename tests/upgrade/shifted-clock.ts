/** Preloaded into a service: its clock differs from the machine's by STC_TEST_CLOCK_MS. */
const shiftMs = Number(process.env["STC_TEST_CLOCK_MS"] ?? 0);
const Machine = Date;

globalThis.Date = class extends Machine {
  constructor(...args: readonly unknown[]) {
    super(...((args.length === 0 ? [Machine.now() + shiftMs] : args) as [number]));
  }

  static override now(): number {
    return Machine.now() + shiftMs;
  }
} as DateConstructor;
