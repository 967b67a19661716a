import type { Invocation } from "./invocation.ts";

type Bodies = ReadonlyMap<string, ReadonlySet<Invocation>>;

/** Functions that come back to themselves in the background, or twice in one pipe. Mere recursion is none. */
export function bombsIn(bodies: Bodies): readonly string[] {
  return [...bodies].flatMap(([name, body]) => {
    const seen = () => new Set([name]);
    const calls = [...body].filter(
      ({ spelled }) => spelled === name || reaches(bodies, { from: spelled, goal: name, seen: seen() }),
    );
    const pipes = calls.flatMap(({ pipe }) => (pipe === undefined ? [] : [pipe]));
    const forks = calls.some(({ background }) => background) || new Set(pipes).size < pipes.length;
    return forks ? [name] : [];
  });
}

interface Search {
  readonly from: string;
  readonly goal: string;
  readonly seen: Set<string>;
}

function reaches(bodies: Bodies, { from, goal, seen }: Search): boolean {
  if (seen.has(from)) return false;
  seen.add(from);
  return [...(bodies.get(from) ?? [])].some(
    ({ spelled }) => spelled === goal || (bodies.has(spelled) && reaches(bodies, { from: spelled, goal, seen })),
  );
}
