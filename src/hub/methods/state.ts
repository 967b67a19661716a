import { Refusal } from "../../core/errors.ts";
import { addAnswer, rememberAnswer } from "../../data-flow/answer-operations.ts";
import { flowChanges, flowSecret, readCarriers, readStored, storeText, sweepFlow } from "../../data-flow/operations.ts";
import type { StoredText } from "../../data-flow/stored-rows.ts";
import type { NoInput, Operation, StateOperations } from "../../database/operations.ts";
import { listHalts } from "../../halts/operations.ts";
import { fillOrders, readUses, sweepUses } from "../../quotas/operations.ts";
import type { HubAnswer, HubClient, HubMember, HubMethod, PushSource } from "../contract.ts";
import { HubUnavailable, issuerNotAllowed } from "../errors.ts";
import { once } from "../once.ts";

/** An operation that members may run. */
interface Offered {
  readonly name: string;
  method(operations: StateOperations): HubMethod;
}

interface OfferedParts<Input, Output> {
  /** Returns the issuers of the callers that the input names. */
  readonly issuersOf?: (input: Input) => readonly string[];
  /** Whether a repetition must not run the operation again, because it would have another effect. */
  readonly isOnce?: boolean;
  /** Returns the part of the output that the member may know. */
  readonly shown?: (output: Output, member: HubMember) => Output;
}

function offered<Input, Output>(
  operation: Operation<Input, Output>,
  { issuersOf = () => [], isOnce = false, shown = (output) => output }: OfferedParts<Input, Output> = {},
): Offered {
  const { name, input } = operation;
  return {
    name,
    method(operations): HubMethod<Input> {
      return {
        name,
        input,
        async handle(parsed, { member, id, digest }): Promise<HubAnswer> {
          // A quota that does not count by caller has no issuer.
          const named = issuersOf(parsed).filter((issuer) => issuer !== "");
          if (!named.every((issuer) => member.speaksFor(issuer))) throw issuerNotAllowed(member);
          const key = { member: member.name, id, digest };
          const ran: Operation<Input, Output> = isOnce
            ? { ...operation, run: (transaction, own) => once(transaction, key, () => operation.run(transaction, own)) }
            : operation;
          const { value, now } = await operations.run(ran, parsed);
          return { value: shown(value, member), now };
        },
      };
    },
  };
}

/** Removes the callers of texts for whom the member does not speak. Answers are compared with the texts of all callers. */
function textsFor<Output extends { readonly outcome?: string; readonly texts?: readonly StoredText[] }>(
  output: Output,
  member: HubMember,
): Output {
  if (output.texts === undefined) return output;
  const texts = output.texts.map((text) =>
    member.speaksFor(text.issuer) ? text : { ...text, issuer: "", subject: "" },
  );
  return { ...output, texts };
}

/** All other operations are operators' own, or belong to the process that has the database. */
const OFFERED: readonly Offered[] = [
  offered(listHalts),
  offered(fillOrders, { issuersOf: ({ orders }) => orders.map(({ user }) => user.issuer), isOnce: true }),
  offered(readUses, { issuersOf: ({ questions }) => questions.map(({ user }) => user.issuer) }),
  offered(flowSecret),
  offered(readCarriers, { issuersOf: ({ carriers }) => carriers.map(({ issuer }) => issuer) }),
  offered(rememberAnswer, { issuersOf: ({ carriers }) => carriers.map(({ issuer }) => issuer), shown: textsFor }),
  offered(addAnswer, { issuersOf: ({ carriers }) => carriers.map(({ issuer }) => issuer), shown: textsFor }),
  offered(readStored, { shown: textsFor }),
  offered(storeText, { issuersOf: ({ text }) => [text.issuer], shown: textsFor }),
  offered(flowChanges),
];

const OFFERED_NAMES = new Set(OFFERED.map(({ name }) => name));
/** Their output is sent to all members when it changes. */
const WATCHED: readonly Operation<NoInput, unknown>[] = [listHalts, flowChanges];
const WATCHED_NAMES = new Set(WATCHED.map(({ name }) => name));

/** Returns the operations of the shared state that members may run. */
export function stateMethods(operations: StateOperations): readonly HubMethod[] {
  return OFFERED.map((one) => one.method(operations));
}

/** Returns what members know without asking. */
export function statePushes(operations: StateOperations): readonly PushSource[] {
  return WATCHED.map((operation) => ({
    name: operation.name,
    current: () => operations.run(operation, {}),
    watch: operations.watch,
  }));
}

/** Transactions of one sweep. */
const SWEEPS_MAX = 100;

/** Deletes what has expired, also what members wrote. Called every minute by a process that has the database. */
export async function sweepState(operations: StateOperations): Promise<void> {
  await operations.run(sweepFlow, {});
  for (let sweep = 0; sweep < SWEEPS_MAX; sweep += 1) {
    if ((await operations.run(sweepUses, {})).value === 0) return;
  }
}

/** Runs operations at the hub. `hub`: its URL, for messages. */
export function hubState(client: HubClient, { hub }: { readonly hub: string }): StateOperations {
  return {
    scope: "shared",
    isRemote: true,
    watch: (changed) => client.watch(changed),
    pushed: <Output>({ name, output }: Operation<NoInput, Output>) => {
      const pushed = client.pushed(name);
      const isUsable = pushed !== undefined && output?.safeParse(pushed.value).success !== false;
      return isUsable ? { value: pushed.value as Output, now: pushed.now } : undefined;
    },
    async run<Input, Output>({ name, output }: Operation<Input, Output>, input: Input) {
      if (!OFFERED_NAMES.has(name)) throw new HubOnly(name, hub);
      const known = WATCHED_NAMES.has(name) ? client.pushed(name) : undefined;
      const { value, now } = known ?? (await client.call(name, input));
      if (output?.safeParse(value).success === false)
        throw new HubUnavailable(`the hub's answer to ${name} is malformed`);
      return { value: value as Output, now };
    },
  };
}

/** Operators do this at the hub itself. */
export class HubOnly extends Refusal {
  constructor(operation: string, hub: string) {
    super(
      "PERMISSION_DENIED",
      `Operators do this at the hub of this service: ${hub}. ${operation} is not for members.`,
    );
  }
}
