import { z } from "zod";

const PATH_CHARACTERS_MAX = 4_096;

/** Whether it names a mount and stays in it is the handler's to say, with its own code. */
export const MountedPath = z.string().min(1).max(PATH_CHARACTERS_MAX);

export const PATH_EXAMPLE = "@project";

/** Of a whole file, as fs_read answers it. */
export const Sha256 = z
  .string()
  .regex(/^[0-9A-Fa-f]{64}$/, "must be the sha256 that fs_read answers: 64 hexadecimal digits");
