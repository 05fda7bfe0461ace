/**
 * `npx tsx bench/policy.ts`: what a policy of 200 rules costs per call, in the worker's thread. One JSON line per
 * figure. Nothing is asserted. Needs no Temporal and no server.
 */
import { compileCondition, ConditionClock, Conditions } from '../activities/policy/condition.ts';
import { defined } from '../contracts/defined.ts';
import { Policy } from '../contracts/schemas/policy.ts';
import { judge, type JudgedTool } from '../domain/policy/judge.ts';
import type { ConditionInputs } from '../activities/policy/condition-variables.ts';

const RULES = 200;
const CALLS = 2_000;

const tool: JudgedTool = { server: 'bank', tool: 'pay', annotations: undefined, serverTrusted: false };
const inputs: ConditionInputs = {
  call: { server: 'bank', tool: 'pay', callId: 't1.c0', annotations: undefined },
  args: { amount: 50, iban: 'NL91ABNA0417164300', note: 'x'.repeat(2_000), to: ['ann@ours.test', 'ben@ours.test'] },
  run: { id: 'run-1', tenant: 'acme', turn: 3 },
  initiator: { id: 'ann', groups: ['ops'], tenant: 'acme' },
  earlier: { tools: { 'bank/pay': { succeeded: 3 } } },
};

/** None of them matches: each is looked at. */
function policyOf(when: (index: number) => string | undefined, match: object): Policy {
  const rules = Array.from({ length: RULES }, (_, index) => {
    const condition = when(index);
    return { id: `r${index}`, match, then: 'deny', ...defined({ when: condition }) };
  });
  return Policy.parse({ rules, strategy: 'never' });
}

const KINDS = {
  'names only, none of which is the tool': policyOf(() => undefined, { server: 'files*', tool: '*_file' }),
  'conditions that compare': policyOf((index) => `args.amount > ${1_000 + index}.0`, { server: 'b*' }),
  'conditions of patterns, lists and earlier calls': policyOf(
    (index) =>
      `args.note.matches("^y+${index}$") || args.to.exists(a, a.endsWith("${index}.test")) || earlier["bank/pay"].total > ${index + 9}`,
    { server: 'b*' },
  ),
} as const;

for (const [kind, organisation] of Object.entries(KINDS)) {
  const conditions = new Conditions();
  const judged = async () =>
    await conditions.asked([organisation], inputs, new ConditionClock(), (ask) =>
      judge({ organisation, run: undefined }, tool, 'ann', ask),
    );
  for (let warm = 0; warm < 100; warm += 1) await judged();
  const started = performance.now();
  for (let call = 0; call < CALLS; call += 1) await judged();
  tell(`${RULES} rules, ${kind}`, 'ms per call', (performance.now() - started) / CALLS);
}

const started = performance.now();
for (let index = 0; index < RULES; index += 1)
  compileCondition(`args.amount > ${index}.0 && args.note.matches("^y{${index}}$")`);
tell('compiling a condition, once for each worker', 'ms', (performance.now() - started) / RULES);

function tell(figure: string, unit: string, value: number): void {
  console.log(JSON.stringify({ figure, unit, countersign: Number(value.toPrecision(3)) }));
}
