/** `countersign policy test`: do tables of cases say what the policy does? */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { PolicyCases } from '../../../contracts/schemas/policy-cases.ts';
import { parseAs } from '../../../contracts/schemas/parse.ts';
import { visible } from '../../../domain/escape.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import type { GlobalOptions } from '../../options.ts';
import { type CaseResult, runCases } from '../../policy-cases.ts';
import { loadPolicySettings, refuseConditions } from '../../settings.ts';
import { readInput } from '../../input-file.ts';
import type { Paint, Terminal } from '../../terminal.ts';

export function addTest(policy: Command, terminal: Terminal): void {
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

/** A case with a condition that nobody can evaluate would hold for the wrong reason. */
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
