/**
 * An organisation in an emergency halts calls, or breaks glass: it lets pass what would be asked.
 *
 * 1. A halt is above all else, also above approvals and broken glass.
 * 2. Breaking glass withdraws the questions of the organisation and of a catalog, and lifts no denial. If the run's own
 *    policy asks, breaking glass does nothing: else the starter of a run could get rid of the other approvers. The rule
 *    must match for certain, and has an end (INV-G4).
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

/**
 * Returns the rule that breaks glass for a call now.
 * @param now epoch ms
 */
export function glassFor(
  rules: readonly Pick<OrganisationRule, 'id' | 'match' | 'when' | 'then' | 'breakGlass'>[],
  tool: CalledTool,
  ask: AskCondition,
  now: number,
): BrokenGlass | undefined {
  for (const rule of rules) {
    const { id, breakGlass } = rule;
    // The comparison fails for an invalid time, which counts as over.
    if (breakGlass === undefined || !(now < Date.parse(breakGlass.until))) continue;
    if (matchOf(rule, tool, ask) === true)
      return { rule: `organisation/rules/${id}`, reason: breakGlass.reason, until: breakGlass.until };
  }
  return undefined;
}
