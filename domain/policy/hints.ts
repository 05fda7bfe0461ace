/**
 * A rule may depend on a tool's hints, which are untrusted (MCP spec, server/tools "ToolAnnotations").
 *
 * 1. A hint of an untrusted server may be true or false: it holds for rules that ask or deny, never for those that
 *    allow (INV-G4).
 * 2. An absent hint has the default of the specification.
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

/** Returns `unknown` if the server is not trusted, or if a stated hint is not boolean. */
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
