/**
 * Implements `countersign policy`: it checks, explains and tests the organisation's policy before anything
 * runs under it.
 */
import type { Command } from 'commander';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Verdict } from '../../contracts/schemas/call.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { PolicyCase, PolicyCases } from '../../contracts/schemas/policy-cases.ts';
import { describeRule } from '../../domain/policy/approvers.ts';
import type { Considered } from '../../domain/policy/judge.ts';
import { visible } from '../../domain/text/escape.ts';
import type { LayerTrace } from '../../workers/config/offline-judge.ts';
import { approverWarnings, ruleWarnings } from '../../workers/config/warnings.ts';
import { print } from '../session/answered.ts';
import { examples, type GlobalOptions, repeated } from '../session/options.ts';
import { readInput, readSpec } from '../session/files.ts';
import { type CaseResult, runCases, verdictOn } from '../session/policy-cases.ts';
import { type ClientSettings, loadPolicySettings, refuseConditions } from '../session/session.ts';
import type { Paint, Terminal } from '../session/terminal.ts';
import { duration, fields } from '../views/format.ts';
import { holds } from '../views/request.ts';

export function addPolicy(program: Command, terminal: Terminal): void {
  const policy = program
    .command('policy')
    .summary('check, explain and test the policy of the configuration')
    .description("What the organisation's policy says of calls, without a server and without Temporal")
    .addHelpText('after', examples('policy check', 'policy explain files write_file', 'policy test policy-cases.yaml'));
  for (const addVerb of [addCheck, addExplain, addTest]) addVerb(policy, terminal);
}

// `policy check` says whether a configuration's policy is valid, and whether all of it can apply.

interface CheckOptions extends GlobalOptions {
  readonly strict?: true;
}

function addCheck(policy: Command, terminal: Terminal): void {
  policy
    .command('check')
    .summary('is the policy valid, and meant so?')
    .description('Read the policy of a configuration, and say what in it can never apply or never be met')
    .argument('[file]', 'configuration (default: --config, COUNTERSIGN_CONFIG, ./countersign.yaml)')
    .option('--strict', 'a warning is a failure: exit code 7')
    .addHelpText('after', examples('policy check', 'policy check deploy/countersign.yaml --strict'))
    .action(async (file: string | undefined, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<CheckOptions>();
      const settings = await loadPolicySettings(file ?? options.config, terminal);
      const warnings = [
        ...neverApplies(settings),
        ...ruleWarnings(settings.policy, Object.keys(settings.serverUrls)),
        ...approverWarnings(settings),
      ];
      print(
        terminal,
        {
          json: { valid: true, warnings },
          text: (paint) =>
            [
              ...warnings.map((warning) => `${paint('yellow', 'warning')}  ${visible(warning)}`),
              `${paint('green', 'valid')}    ${(settings.policy.rules ?? []).length} rules, ${Object.keys(settings.policy.servers ?? {}).length} servers, ${warnings.length} warnings`,
            ].join('\n'),
        },
        options.json === true,
      );
      if (options.strict === true && warnings.length > 0)
        throw new CountersignError('POLICY_CASES_FAILED', `The policy has ${warnings.length} warnings.`, {
          warnings: warnings.length,
        });
    });
}

/**
 * Warns of policy for servers that the configuration does not name. A run may still bring such a server, or a catalog
 * may hold it.
 */
function neverApplies({ policy, serverUrls }: Pick<ClientSettings, 'policy' | 'serverUrls'>): string[] {
  return Object.keys(policy.servers ?? {}).flatMap((name) =>
    Object.hasOwn(serverUrls, name)
      ? []
      : [`policy.servers.${name} applies only where a run or a catalog has a server of that name: none is configured.`],
  );
}

// `policy explain` says what happens to a call of a tool, and which rules decide that.

interface ExplainOptions extends GlobalOptions {
  readonly readOnly?: true;
  readonly initiator: string;
  readonly group?: readonly string[];
  readonly tenant: string;
  readonly args: string;
  readonly earlier: string;
  readonly turn: string;
  readonly spec?: string;
}

function addExplain(policy: Command, terminal: Terminal): void {
  policy
    .command('explain')
    .summary('what happens to a call, and why')
    .description('What the policy of the configuration says of a call of a tool, with the rules that decide')
    .argument('<server>', 'name of the server')
    .argument('<tool>', 'name of the tool, as its server spells it')
    .option('--read-only', 'the server says `readOnlyHint: true` of it')
    .option('--initiator <id>', 'who starts the run', 'someone')
    .option('--group <name>', 'a group of who starts the run; may be given several times', repeated)
    .option('--tenant <id>', 'tenant of who starts the run', 'default')
    .option('--args <json>', 'arguments of the call', '{}')
    .option('--earlier <json>', 'earlier calls, as {"server/tool": {"succeeded": 2}}', '{}')
    .option('--turn <number>', 'turn of the run', '1')
    .option('--spec <file>', "a run spec whose policy is the run's layer")
    .addHelpText(
      'after',
      `${examples('policy explain files write_file', 'policy explain files read_file --read-only', 'policy explain bank pay --spec run.yaml', `policy explain bank pay --args '{"amount": 50}'`)}\n
A catalog may say more of a tool, and only tightens: countersign catalog show.`,
    )
    .action(async (server: string, tool: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ExplainOptions>();
      const settings = await loadPolicySettings(options.config, terminal);
      const run = options.spec === undefined ? undefined : (await readSpec(options.spec, terminal)).policy;
      const asked = parseAs(
        PolicyCase.omit({ name: true, expect: true }),
        {
          call: `${server}/${tool}`,
          initiator: options.initiator,
          initiatorGroups: options.group ?? [],
          tenant: options.tenant,
          args: jsonOf(options.args, '--args'),
          earlier: jsonOf(options.earlier, '--earlier'),
          turn: Number(options.turn),
          ...(options.readOnly === true ? { annotations: { readOnlyHint: true } } : {}),
          ...defined({ run }),
        },
        'USAGE',
        'call',
      );
      if (run !== undefined) refuseConditions(run, ['policy'], 'SPEC_INVALID', 'run spec');
      const { verdict, layers } = await verdictOn(settings, asked);
      print(
        terminal,
        { json: { server, tool, verdict, layers }, text: (paint) => explained(asked.call, verdict, layers, paint) },
        options.json === true,
      );
    });
}

const COLOURS = { allow: 'green', ask: 'yellow', deny: 'red' } as const;

function jsonOf(text: string, option: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CountersignError('USAGE', `${option} is not JSON. Quote it for your shell: ${option} '{"amount": 50}'.`, {
      option,
    });
  }
}

function explained(call: string, verdict: Verdict, layers: readonly LayerTrace[], paint: Paint): string {
  const ask = verdict.kind === 'ask' ? verdict.approvers : undefined;
  const rows = [
    ['because', verdict.rules.map(visible).join(', ')],
    ['may decide', verdict.kind === 'ask' ? visible(describeRule(verdict.approvers)) : undefined],
    ['within', verdict.kind === 'ask' ? duration(verdict.deadlineSeconds * 1_000) : undefined],
    [
      'reminder',
      ask?.remindAfterSeconds === undefined ? undefined : `after ${duration(ask.remindAfterSeconds * 1_000)}`,
    ],
    [
      'may wait',
      ask?.extendableToSeconds === undefined
        ? undefined
        : `${duration(ask.extendableToSeconds * 1_000)}, where somebody postpones the deadline`,
    ],
    ['holds', ask === undefined ? undefined : holds(ask)],
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

/** Describes one rule that was considered, and why it does or does not decide. */
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

// `policy test` says whether the policy does what tables of cases expect.

function addTest(policy: Command, terminal: Terminal): void {
  policy
    .command('test')
    .summary('do tables of cases say what the policy does?')
    .description('Judge each case of one or more tables; exit code 7 where one comes out otherwise than it says')
    .argument('<files...>', 'YAML or JSON; see docs/guide/policy-cases.yaml')
    .addHelpText('after', examples('policy test policy-cases.yaml', 'policy test cases/*.yaml --json'))
    .action(async (files: string[], _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const settings = await loadPolicySettings(options.config, terminal);
      const results: CaseResult[] = [];
      for (const file of files) {
        const table = parseAs(
          PolicyCases,
          await readInput(file, { what: 'table', code: 'USAGE' }, terminal),
          'USAGE',
          `table ${file}`,
        );
        refuseTable(table, file);
        results.push(...(await runCases(table, settings)));
      }
      const failed = results.filter(({ ok }) => !ok);
      print(
        terminal,
        {
          json: { cases: results.length, failed: failed.length, results },
          text: (paint) =>
            [
              ...failed.map((each) => failure(each, paint)),
              `${results.length - failed.length} of ${results.length} cases hold.`,
            ].join('\n'),
        },
        options.json === true,
      );
      if (failed.length > 0)
        throw new CountersignError(
          'POLICY_CASES_FAILED',
          `${failed.length} of ${results.length} cases come out otherwise than they say.`,
          { failed: failed.length },
        );
    });
}

/** Refuses a table whose conditions cannot be evaluated: its cases would hold for the wrong reason. */
function refuseTable({ groups }: PolicyCases, file: string): void {
  for (const [index, { policy = {}, cases }] of groups.entries()) {
    refuseConditions(policy, ['groups', index, 'policy'], 'USAGE', `table ${file}`);
    for (const [at, { run = {} }] of cases.entries())
      refuseConditions(run, ['groups', index, 'cases', at, 'run'], 'USAGE', `table ${file}`);
  }
}

function failure({ group, name, differences, rules }: CaseResult, paint: Paint): string {
  return `${paint('red', 'FAILED')}  ${visible(group)}: ${visible(name)}\n        ${differences.map(visible).join('; ')} (${rules.map(visible).join(', ')})`;
}
