/**
 * What an organisation does in an emergency: it halts calls, or lets pass what would be asked.
 *
 * 1. A halt is above all else, also above what people have approved and what breaks glass.
 * 2. Breaking glass takes back questions of the organisation and of a catalog. It takes back no denial, and nothing where a run asks
 *    itself: else whoever starts it could get rid of the others who are asked. It must be certain to match, and has an end (INV-G4).
 */
import type { BrokenGlass, Verdict } from '../../contracts/schemas/call.ts';
import type { Halt, OrganisationRule } from '../../contracts/schemas/policy.ts';
import { visible } from '../text/escape.ts';
import { type AskCondition, type CalledTool, matchOf } from './layer.ts';

export function haltedBy(
  halt: Halt | undefined,
  { server, tool }: CalledTool,
): Extract<Verdict, { kind: 'deny' }> | undefined {
  if (halt === undefined || halt.servers?.includes(server) === false) return undefined;
  const what = halt.servers === undefined ? 'All tool calls are' : `All calls of ${server} are`;
  return {
    kind: 'deny',
    rules: ['organisation/halt'],
    code: 'ORGANISATION_HALTED',
    message: `${what} halted by the organisation, ${server}/${tool} too: ${visible(halt.reason)} Call none of them again until the user says that they are not.`,
  };
}

/** @param now epoch ms */
export function glassFor(
  rules: readonly Pick<OrganisationRule, 'id' | 'match' | 'when' | 'then' | 'breakGlass'>[],
  tool: CalledTool,
  ask: AskCondition,
  now: number,
): BrokenGlass | undefined {
  for (const rule of rules) {
    const { id, breakGlass } = rule;
    // A time that is none is over.
    if (breakGlass === undefined || !(now < Date.parse(breakGlass.until))) continue;
    if (matchOf(rule, tool, ask) === true)
      return { rule: `organisation/rules/${id}`, reason: breakGlass.reason, until: breakGlass.until };
  }
  return undefined;
}
