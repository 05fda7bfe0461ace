/** `countersign policy explain`: what happens to a call of a tool, and which rules say so. */
import type { Command } from 'commander';
import { PolicyCase } from '../../../contracts/schemas/policy-cases.ts';
import { parseAs } from '../../../contracts/schemas/parse.ts';
import type { Verdict } from '../../../contracts/schemas/call.ts';
import { describeRule } from '../../../domain/approver.ts';
import { visible } from '../../../domain/escape.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import type { GlobalOptions } from '../../options.ts';
import { verdictOn } from '../../policy-cases.ts';
import { loadPolicySettings } from '../../settings.ts';
import { readSpec } from '../../spec-file.ts';
import type { Paint, Terminal } from '../../terminal.ts';
import { duration } from '../../views/duration.ts';
import { holds } from '../../views/request.ts';
import { fields } from '../../views/fields.ts';

interface ExplainOptions extends GlobalOptions {
  readonly readOnly?: true;
  readonly initiator: string;
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
    .option('--spec <file>', "a run spec whose policy is the run's layer")
    .addHelpText(
      'after',
      `${examples('policy explain files write_file', 'policy explain files read_file --read-only', 'policy explain bank pay --spec run.yaml')}\n
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
          ...(options.readOnly === true ? { annotations: { readOnlyHint: true } } : {}),
          ...(run === undefined ? {} : { run }),
        },
        'USAGE',
        'call',
      );
      const verdict = verdictOn(settings, asked);
      print(
        terminal,
        { json: { server, tool, verdict }, text: (paint) => explained(asked.call, verdict, paint) },
        options.json === true,
      );
    });
}

const COLOURS = { allow: 'green', ask: 'yellow', deny: 'red' } as const;

function explained(call: string, verdict: Verdict, paint: Paint): string {
  const ask = verdict.kind === 'ask' ? verdict.approvers : undefined;
  const rows = [
    ['because', verdict.rules.map(visible).join(', ')],
    ['may decide', verdict.kind === 'ask' ? visible(describeRule(verdict.approvers)) : undefined],
    ['within', verdict.kind === 'ask' ? duration(verdict.deadlineSeconds * 1_000) : undefined],
    [
      'may wait',
      ask?.extendableToSeconds === undefined
        ? undefined
        : `${duration(ask.extendableToSeconds * 1_000)}, where somebody postpones the deadline`,
    ],
    ['holds', ask === undefined ? undefined : holds(ask)],
    ['code', verdict.kind === 'deny' ? verdict.code : undefined],
  ] as const;
  return `${paint(COLOURS[verdict.kind], verdict.kind)}  ${paint('bold', visible(call))}\n${fields(paint, rows)}`;
}
