/** `countersign policy check`: is the policy of a configuration valid, and meant so? */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { visible } from '../../../domain/escape.ts';
import { approverWarnings } from '../../../workers/approver-warnings.ts';
import { ruleWarnings } from '../../../workers/rule-warnings.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import type { GlobalOptions } from '../../options.ts';
import { type ClientSettings, loadPolicySettings } from '../../settings.ts';
import type { Terminal } from '../../terminal.ts';

interface CheckOptions extends GlobalOptions {
  readonly strict?: true;
}

export function addCheck(policy: Command, terminal: Terminal): void {
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

/** A server that no configuration names may still be brought by a run, or stand in a catalog. */
function neverApplies({ policy, serverUrls }: Pick<ClientSettings, 'policy' | 'serverUrls'>): string[] {
  return Object.keys(policy.servers ?? {}).flatMap((name) =>
    Object.hasOwn(serverUrls, name)
      ? []
      : [`policy.servers.${name} applies only where a run or a catalog has a server of that name: none is configured.`],
  );
}
