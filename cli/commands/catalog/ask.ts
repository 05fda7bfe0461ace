/** `countersign catalog ask`: every call of a tool waits for a countersignature. */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { print } from '../../answer.ts';
import { changeTools } from '../../catalog-change.ts';
import { type ActingOptions, addActor, addTenant, hashPrefix } from '../../catalog-options.ts';
import { examples } from '../../examples.ts';
import { repeated, wholeNumber } from '../../options.ts';
import { withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';

interface AskOptions extends ActingOptions {
  readonly all?: true;
  readonly hash?: readonly string[];
  readonly approver?: readonly string[];
  readonly approverGroup?: readonly string[];
  readonly deadlineSeconds?: number;
  readonly need?: number;
  readonly notInitiator?: true;
}

export function addAsk(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('ask')))
    .summary('every call waits for a countersignature')
    .description('Let every call of these tools wait for a countersignature, whatever other policy says')
    .argument('<server>', 'name of the server')
    .argument('[tools...]', 'as the server spells them')
    .option('--all', 'all tools of the catalog')
    .option('--approver <id>', 'who may decide; may be given several times', repeated)
    .option('--approver-group <name>', 'a group that may decide; may be given several times', repeated)
    .option('--need <n>', 'so many of them must agree', wholeNumber)
    .option('--not-initiator', 'whoever started the run is none of them')
    .option('--deadline-seconds <n>', 'how long a request waits', wholeNumber)
    .option('--hash <sha256>', 'take notice of a definition that has changed, as `diff` shows it', hashPrefix)
    .addHelpText(
      'after',
      examples(
        'catalog ask files write_file --as ann --approver-group ops --deadline-seconds 3600',
        'catalog ask files --all --as ann',
        'catalog ask bank pay --as ann --approver-group finance --need 2 --not-initiator',
      ),
    )
    .action(async (server: string, tools: readonly string[], _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<AskOptions>();
      const {
        approver: ids = [],
        approverGroup: groups = [],
        need,
        notInitiator,
        deadlineSeconds,
        hash = [],
        all = false,
      } = options;
      if (ids.length + groups.length === 0 && (need !== undefined || notInitiator === true))
        throw new CountersignError('USAGE', '--need and --not-initiator go with a list: --approver, --approver-group.');
      const wanted = {
        server,
        tools,
        all,
        hashes: hash,
        acknowledge: 'named',
        change: {
          requiresApproval: true,
          denied: false,
          ...(ids.length + groups.length === 0
            ? {}
            : {
                approvers: {
                  ids: [...ids],
                  groups: [...groups],
                  ...(need === undefined ? {} : { need }),
                  ...(notInitiator === true ? { notInitiator } : {}),
                },
              }),
          ...(deadlineSeconds === undefined ? {} : { deadlineSeconds }),
        },
      } as const;
      const answer = await withSession(terminal, options, (session) => changeTools(session, options, wanted));
      print(terminal, answer, options.json === true);
    });
}
