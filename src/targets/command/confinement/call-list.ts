import { type Pointer, read, toArrayBuffer } from "bun:ffi";
import { CALL, type CLibrary, orThrow, pointerTo } from "./c-library.ts";

/**
 * Runs a list of system calls in a new process that shares this process's memory. JavaScript cannot run there, because
 * a new process has only one of the runtime's threads. Only for Linux on x86_64.
 */

export interface SystemCall {
  /** Description for the operator, when the call fails. */
  readonly what: string;
  readonly number: bigint;
  readonly args: readonly bigint[];
  /** Address for the result, 8 bytes; by default, in memory that only `failure` reads. */
  readonly resultAt?: bigint;
}

/** Words per call: the number, six arguments, and the address of the result. */
const WORDS = 8;
const WORD_BYTES = 8;
const STACK_BYTES = 4_096;
const STACK_ALIGNMENT = 16;
const PAGE_BYTES = 4_096n;

/** Makes the calls of the list at `rdi`. Exits when one fails. Uses no stack. */
const CODE = [
  ...[0x48, 0x89, 0xfb], //             mov rbx, rdi
  ...[0x48, 0x8b, 0x03], //       next: mov rax, [rbx]
  ...[0x48, 0x8b, 0x7b, 0x08], //       mov rdi, [rbx + 8]
  ...[0x48, 0x8b, 0x73, 0x10], //       mov rsi, [rbx + 16]
  ...[0x48, 0x8b, 0x53, 0x18], //       mov rdx, [rbx + 24]
  ...[0x4c, 0x8b, 0x53, 0x20], //       mov r10, [rbx + 32]
  ...[0x4c, 0x8b, 0x43, 0x28], //       mov r8, [rbx + 40]
  ...[0x4c, 0x8b, 0x4b, 0x30], //       mov r9, [rbx + 48]
  ...[0x0f, 0x05], //                   syscall
  ...[0x48, 0x8b, 0x4b, 0x38], //       mov rcx, [rbx + 56]
  ...[0x48, 0x89, 0x01], //             mov [rcx], rax
  ...[0x48, 0x83, 0xc3, 0x40], //       add rbx, 64
  ...[0x48, 0x85, 0xc0], //             test rax, rax
  ...[0x79, 0xd3], //                   jns next
  ...[0xbf, 0x7e, 0x00, 0x00, 0x00], // mov edi, 126
  ...[0xb8, 0x3c, 0x00, 0x00, 0x00], // mov eax, 60 (exit)
  ...[0x0f, 0x05], //                   syscall
];

const READ_WRITE = 3n;
const READ_EXECUTE = 5n;
const PRIVATE_ANONYMOUS = 0x22n;

const CLONE_VM = 0x100;
/** This process waits until the new one has become a program or ended. */
const CLONE_VFORK = 0x4000;
const SIGCHLD = 17;

const SIG_SETMASK = 2;
const SIGNAL_SET_BYTES = 128;

export interface CallList {
  /** Starts the process and waits until it has become a program or ended. */
  startProgram(): number;
  /** Starts the process without waiting for it. Waiting for any child does not include it. */
  startWithoutWaiting(): number;
  failure(): string | undefined;
}

/** Prepares the list. Its code and data stay in memory. */
export function callList(c: CLibrary, calls: readonly SystemCall[]): CallList {
  const resultsAt = BigInt(pointerTo(new BigUint64Array(calls.length)));
  const addresses = calls.map(({ resultAt }, index) => resultAt ?? resultsAt + BigInt(index * WORD_BYTES));
  const words = new BigUint64Array(calls.length * WORDS);
  for (const [index, { number, args }] of calls.entries()) {
    words.set([number, ...args], index * WORDS);
    words[index * WORDS + WORDS - 1] = addresses[index] ?? 0n;
  }
  const list = pointerTo(words);
  const code = codeIn(c);
  const stack = pointerTo(new Uint8Array(STACK_BYTES));
  // The ABI requires an aligned stack.
  const stackTop = stack + STACK_BYTES - ((stack + STACK_BYTES) % STACK_ALIGNMENT);
  const start = (flags: number): number => {
    const [every, former] = [new Uint8Array(SIGNAL_SET_BYTES).fill(0xff), new Uint8Array(SIGNAL_SET_BYTES)];
    // The runtime's signal handlers must not run in the new process, which shares its memory.
    c.sigprocmask(SIG_SETMASK, pointerTo(every), pointerTo(former));
    const pid = c.clone(code, stackTop as Pointer, flags, list);
    const errno = c.errno();
    c.sigprocmask(SIG_SETMASK, pointerTo(former), null);
    return orThrow(pid, () => errno, "clone");
  };
  return {
    startProgram: () => start(CLONE_VM | CLONE_VFORK | SIGCHLD),
    startWithoutWaiting: () => start(CLONE_VM),
    failure() {
      const results = addresses.map((address) => read.i64(Number(address) as Pointer, 0));
      const index = results.findIndex((result) => result < 0n);
      return index === -1 ? undefined : `${calls[index]?.what} (errno ${-(results[index] ?? 0n)})`;
    },
  };
}

function codeIn(c: CLibrary): Pointer {
  const page = c.numbers(CALL.mmap, 0n, PAGE_BYTES, READ_WRITE, PRIVATE_ANONYMOUS, 0xffffffffffffffffn, 0n);
  orThrow(Number(page), c.errno, "mmap");
  const at = Number(page) as Pointer;
  new Uint8Array(toArrayBuffer(at, 0, CODE.length)).set(CODE);
  orThrow(Number(c.numbers(CALL.mprotect, BigInt(page), PAGE_BYTES, READ_EXECUTE, 0n, 0n, 0n)), c.errno, "mprotect");
  return at;
}
