/** `countersign policy explain`: what happens to a call of a tool, and which rules say so. */
import type { Command } from 'commander';
import { PolicyCase } from '../../../contracts/schemas/policy-cases.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import { parseAs } from '../../../contracts/schemas/parse.ts';
import type { Verdict } from '../../../contracts/schemas/call.ts';
import { describeRule } from '../../../domain/approver.ts';
import { visible } from '../../../domain/escape.ts';
import type { Considered } from '../../../domain/policy-layer.ts';
import type { LayerTrace } from '../../../workers/offline-judge.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import { type GlobalOptions, repeated } from '../../options.ts';
import { verdictOn } from '../../policy-cases.ts';
import { loadPolicySettings, refuseConditions } from '../../settings.ts';
import { readSpec } from '../../spec-file.ts';
import type { Paint, Terminal } from '../../terminal.ts';
import { duration } from '../../views/duration.ts';
import { holds } from '../../views/request.ts';
import { fields } from '../../views/fields.ts';

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

export function addExplain(policy: Command, terminal: Terminal): void {
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
          ...(run === undefined ? {} : { run }),
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

/** One rule that was looked at, and why it does or does not decide. */
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
