import { z } from "zod";

const text = z.string().min(1);

/** Programs that manifests may name. */
export const commands = z
  .strictObject({
    /** Base commands that manifests may name: plain names are looked up on PATH once, at start; absolute paths are taken as they are. */
    allowed: z.array(text).default([]),
    /** Lets the tool `bash` run as the service itself does: nothing but people's judgement stands between it and the machine. */
    unconfinedBash: z.boolean().default(false),
  })
  .prefault({});

/** Where agents' files lie. */
export const workspace = z
  .strictObject({
    /** Where commands work: a directory that holds nothing of the service's own. */
    project: text.optional(),
  })
  .prefault({});
