/**
 * Implements `countersign policy`: it checks, explains and tests the organisation's policy before anything runs under
 * it.
 */
import { jsonOf } from '../../client/ledger/files.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { PolicyCase, PolicyCases } from '../../contracts/schemas/policy-cases.ts';
import { inWords } from '../../domain/policy/approvers.ts';
import type { Considered } from '../../domain/policy/judge.ts';
import { visible } from '../../domain/text/escape.ts';
import type { LayerTrace } from '../../workers/config/offline-judge.ts';
import { approverWarnings, routeToNowhere, ruleWarnings } from '../../workers/config/warnings.ts';
import { readInput, readSpec } from '../session/files.ts';
import * as option from '../session/options.ts';
import { type CaseResult, runCases, verdictOn } from '../session/policy-cases.ts';
import { type ClientSettings, loadPolicySettings, refuseConditions } from '../session/session.ts';
import type { Paint } from '../session/terminal.ts';
import { verb } from '../session/verb.ts';
import { duration, fields, given } from '../views/format.ts';
import { holds } from '../views/request.ts';

const CHECK = verb({
  name: 'check',
  summary: 'check that the policy is valid, and warn of what never applies',
  description:
    'Check the policy of a configuration. Warnings name rules that never apply, and lists of approvers that can never be met',
  args: { file: option.maybe('configuration (default: --config, COUNTERSIGN_CONFIG, ./countersign.yaml)') },
  options: { strict: option.flag('take a warning for a failure: exit code 7') },
  examples: ['policy check', 'policy check deploy/config/countersign.yaml --strict'],
  run: async ({ args: { file }, options, terminal }) => {
    const settings = await loadPolicySettings(file ?? options.config, terminal);
    const { policy, serverUrls, channels } = settings;
    refuseRoutes(policy, channels);
    const warnings = [...ruleWarnings(policy, Object.keys(serverUrls)), ...approverWarnings(settings)];
    const size = `${(policy.rules ?? []).length} rules, entries for ${Object.keys(policy.servers ?? {}).length} servers`;
    const many = warnings.length;
    const isFailure = options.strict === true && many > 0;
    return {
      json: { valid: true, warnings },
      text: (paint) =>
        [
          ...warnings.map((warning) => `${paint('yellow', 'warning')}  ${visible(warning)}`),
          `${paint('green', 'valid')}    ${size}, ${many} warnings`,
        ].join('\n'),
      fault: isFailure ? failed(`The policy has ${many} warnings.`, { warnings: many }) : undefined,
    };
  },
});

/** Workers refuse such a file, and keep the policy of before. */
function refuseRoutes(policy: ClientSettings['policy'], channels: readonly string[]): void {
  const nowhere = routeToNowhere(policy, channels);
  if (nowhere === undefined) return;
  const { path, channel } = nowhere;
  const message = `The policy of the configuration is not valid: ${path} names no channel of notify.channels: ${channel}. Correct it and try again.`;
  throw new CountersignError('CONFIG_INVALID', message, { path });
}

function failed(message: string, facts: Readonly<Record<string, number>>): CountersignError {
  return new CountersignError('POLICY_CASES_FAILED', message, facts);
}

const EXPLAIN = verb({
  name: 'explain',
  summary: 'show what happens to a call, and which rules decide',
  description: 'Show the verdict of the configured policy on a call of a tool, and the rules that decide it',
  args: { server: option.one('name of the server'), tool: option.one('name of the tool, as its server spells it') },
  options: {
    readOnly: option.flag('judge it as a tool that its server annotates with `readOnlyHint: true`'),
    initiator: option.preset('someone', option.text('<id>', 'who starts the run')),
    group: option.several('<name>', 'a group of who starts the run'),
    tenant: option.preset('default', option.text('<id>', 'tenant of who starts the run')),
    args: option.preset('{}', option.text('<json>', 'arguments of the call')),
    earlier: option.preset('{}', option.text('<json>', 'earlier calls, as {"server/tool": {"succeeded": 2}}')),
    turn: option.preset('1', option.text('<number>', 'turn of the run')),
    spec: option.text('<file>', "a run spec whose policy is the run's layer"),
  },
  examples: [
    'policy explain files write_file',
    'policy explain files read_file --read-only',
    'policy explain bank pay --spec run.yaml',
    `policy explain bank pay --args '{"amount": 50}'`,
  ],
  note: 'A catalog may make the verdict stricter, and never looser. See: countersign catalog show.',
  run: async ({ args: { server, tool }, options, terminal }) => {
    const { initiator, group: initiatorGroups = [], tenant, spec } = options;
    const settings = await loadPolicySettings(options.config, terminal);
    const run = spec === undefined ? undefined : (await readSpec(spec, terminal)).policy;
    const annotations = options.readOnly === true ? { readOnlyHint: true } : undefined;
    const wanted = {
      call: `${server}/${tool}`,
      initiator,
      initiatorGroups,
      tenant,
      args: jsonIn(options.args, '--args'),
      earlier: jsonIn(options.earlier, '--earlier'),
      turn: Number(options.turn),
      ...defined({ annotations, run }),
    };
    const asked = parseAs(PolicyCase.omit({ name: true, expect: true }), wanted, 'USAGE', 'call');
    if (run !== undefined) await refuseConditions(run, ['policy'], 'SPEC_INVALID', 'run spec');
    const { verdict, layers } = await verdictOn(settings, asked);
    return {
      json: { server, tool, verdict, layers },
      text: (paint) => explained(asked.call, verdict, layers, paint),
    };
  },
});

const COLOURS = { allow: 'green', ask: 'yellow', deny: 'red' } as const;

function jsonIn(json: string, name: string): unknown {
  const value = jsonOf(json);
  if (value !== undefined) return value;
  throw option.usage(`${name} is not JSON. Quote it for your shell: ${name} '{"amount": 50}'.`, { option: name });
}

function explained(call: string, verdict: Verdict, layers: readonly LayerTrace[], paint: Paint): string {
  const ask = verdict.kind === 'ask' ? verdict.approvers : undefined;
  const rows = [
    ['because', verdict.rules.map(visible).join(', ')],
    ['may decide', verdict.kind === 'ask' ? visible(inWords(verdict.approvers)) : undefined],
    ['within', verdict.kind === 'ask' ? duration(verdict.deadlineSeconds * 1_000) : undefined],
    ['reminder', given(ask?.remindAfterSeconds, (seconds) => `after ${duration(seconds * 1_000)}`)],
    [
      'may wait',
      given(
        ask?.extendableToSeconds,
        (seconds) => `${duration(seconds * 1_000)}, where somebody postpones the deadline`,
      ),
    ],
    ['holds', ask && holds(ask)],
    [
      'BREAK GLASS',
      verdict.kind === 'allow' && verdict.breakGlass !== undefined
        ? `${visible(verdict.breakGlass.reason)} (until ${verdict.breakGlass.until})`
        : undefined,
    ],
    ['told', verdict.kind === 'deny' ? visible(verdict.message) : undefined],
    ['code', verdict.kind === 'deny' ? verdict.code : undefined],
    ...layers.flatMap(({ layer, considered }) =>
      considered.map((each, index) => [index === 0 ? layer : '', step(each, paint)] as const),
    ),
  ] as const;
  return `${paint(COLOURS[verdict.kind], verdict.kind)}  ${paint('bold', visible(call))}\n${fields(paint, rows)}`;
}

function step({ rule, action, condition, holds: held, decides }: Considered, paint: Paint): string {
  const about = condition === undefined ? '' : `  when ${visible(condition)}`;
  const why = condition === undefined ? HINTS[String(held)] : CONDITION[String(held)];
  const line = `${visible(rule)}: ${why}${decides ? `, ${action}` : ', passed over'}${about}`;
  return decides ? line : paint('dim', line);
}

const CONDITION: Readonly<Record<string, string>> = {
  true: 'the condition is true',
  false: 'the condition is false, or its hints are others',
  failed: 'the condition failed',
  unknown: 'its hints are not to be trusted',
};
const HINTS: Readonly<Record<string, string>> = {
  true: 'matches',
  false: 'its hints are others',
  unknown: 'its hints are not to be trusted',
};

const TEST = verb({
  name: 'test',
  summary: 'test the policy with tables of cases',
  description: 'Judge each case of one or more tables; exit code 7 if a verdict is not the expected one',
  args: { files: option.some('YAML or JSON; see docs/guide/policy-cases.yaml') },
  examples: ['policy test policy-cases.yaml', 'policy test cases/*.yaml --json'],
  run: async ({ args: { files }, options, terminal }) => {
    const settings = await loadPolicySettings(options.config, terminal);
    const results: CaseResult[] = [];
    for (const file of files) {
      const value = await readInput(file, { what: 'table', code: 'USAGE' }, terminal);
      const table = parseAs(PolicyCases, value, 'USAGE', `table ${file}`);
      await refuseTable(table, file);
      results.push(...(await runCases(table, settings)));
    }
    const otherwise = results.filter(({ ok }) => !ok);
    const [all, bad] = [results.length, otherwise.length];
    return {
      json: { cases: all, failed: bad, results },
      text: (paint) =>
        [...otherwise.map((each) => failure(each, paint)), `${all - bad} of ${all} cases hold.`].join('\n'),
      fault: bad > 0 ? failed(`${bad} of ${all} cases come out otherwise than they say.`, { failed: bad }) : undefined,
    };
  },
});

/** Refuses a table whose conditions cannot be evaluated: its cases would hold for the wrong reason. */
async function refuseTable({ groups }: PolicyCases, file: string): Promise<void> {
  for (const [index, { policy = {}, cases }] of groups.entries()) {
    await refuseConditions(policy, ['groups', index, 'policy'], 'USAGE', `table ${file}`);
    for (const [at, { run = {} }] of cases.entries())
      await refuseConditions(run, ['groups', index, 'cases', at, 'run'], 'USAGE', `table ${file}`);
  }
}

function failure({ group, name, differences, rules }: CaseResult, paint: Paint): string {
  return `${paint('red', 'FAILED')}  ${visible(group)}: ${visible(name)}\n        ${differences.map(visible).join('; ')} (${rules.map(visible).join(', ')})`;
}

export const POLICY = verb({
  name: 'policy',
  summary: 'check, explain and test the policy of the configuration',
  description: "Check, explain and test the organisation's policy; this needs neither a server nor Temporal",
  examples: ['policy check', 'policy explain files write_file', 'policy test policy-cases.yaml'],
  verbs: [CHECK, EXPLAIN, TEST],
});
