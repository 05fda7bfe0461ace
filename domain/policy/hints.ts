/**
 * What a rule may conclude from a tool's hints (MCP spec, server/tools "ToolAnnotations": untrusted).
 *
 * 1. A hint of a server that the operator does not trust may be either way: it holds for what asks or denies, never for what allows (INV-G4).
 * 2. A hint that is not stated is what the specification says of its absence.
 */
import type { RuleMatch } from '../../contracts/schemas/policy.ts';
import type { ToolAnnotations } from '../../contracts/schemas/tool.ts';

type Hints = NonNullable<RuleMatch['annotations']>;

const ABSENT: Required<Hints> = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};

/** `unknown`: nobody trusted says. */
export function hintsHold(
  wanted: Hints | undefined,
  annotations: ToolAnnotations | undefined,
  isTrusted: boolean,
): boolean | 'unknown' {
  const names = Object.keys(ABSENT).filter((name): name is keyof Hints => Object.hasOwn(wanted ?? {}, name));
  let held: boolean | 'unknown' = true;
  for (const name of names) {
    const stated = annotations !== undefined && Object.hasOwn(annotations, name) ? annotations[name] : ABSENT[name];
    if (!isTrusted || typeof stated !== 'boolean') held = 'unknown';
    else if (stated !== wanted?.[name]) return false;
  }
  return held;
}
