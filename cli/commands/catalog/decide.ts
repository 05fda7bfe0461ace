/** `countersign catalog approve` and `reject`: a second administrator's word on a change that waits. */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { print } from '../../answer.ts';
import { type ActingOptions, addActor, addTenant, sendAs } from '../../catalog-options.ts';
import { readChanged } from '../../catalog-reading.ts';
import { examples } from '../../examples.ts';
import { type Session, withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';
import { decidedAnswer } from '../../views/catalog-change.ts';

interface DecideOptions extends ActingOptions {
  readonly digest?: string;
}

const VERDICTS = [
  {
    verdict: 'approve',
    summary: 'agree to a change that waits',
    description: 'Agree to a change of somebody else: it then counts',
  },
  {
    verdict: 'reject',
    summary: 'refuse a change that waits',
    description: 'Close a change that waits; nothing of it counts',
  },
] as const;

type Verdict = (typeof VERDICTS)[number]['verdict'];

export function addDecide(catalog: Command, terminal: Terminal): void {
  for (const { verdict, summary, description } of VERDICTS) {
    addActor(addTenant(catalog.command(verdict)), { versioned: false })
      .summary(summary)
      .description(description)
      .argument('<server>', 'name of the server')
      .argument('<change>', 'id of the change, as `catalog show` has it')
      .option('--digest <sha256>', 'decide only the change with this digest')
      .addHelpText(
        'after',
        examples(
          `catalog ${verdict} files change-1 --as ben`,
          `catalog ${verdict} files change-1 --as ben --digest 3f8a…`,
        ),
      )
      .action(async (server: string, changeId: string, _own: unknown, command: Command) => {
        const options = command.optsWithGlobals<DecideOptions>();
        const answer = await withSession(terminal, options, (session) =>
          decide(session, { server, changeId, verdict }, options),
        );
        print(terminal, answer, options.json === true);
      });
  }
}

async function decide(
  { countersign, settings }: Session,
  { server, changeId, verdict }: { readonly server: string; readonly changeId: string; readonly verdict: Verdict },
  options: DecideOptions,
) {
  const { tenant } = options;
  const handle = countersign.catalog(server, tenant);
  const before = await handle.snapshot();
  const change = before.pending.find((pending) => pending.changeId === changeId);
  const digest = change?.digest ?? options.digest;
  if (digest === undefined)
    throw new CountersignError(
      'REQUEST_NOT_OPEN',
      `No change ${changeId} waits in the catalog of ${server}. See: countersign catalog show ${server} --tenant ${tenant}`,
      { tenant, server, changeId },
    );
  if (options.digest !== undefined && options.digest !== digest)
    throw new CountersignError(
      'DIGEST_MISMATCH',
      `Change ${changeId} has digest ${digest}, not the one you named. Read it again (countersign catalog show ${server} --tenant ${tenant}) before you decide; nothing was sent.`,
      { tenant, server, changeId },
    );
  const ack = await sendAs(options, undefined, (ids) => handle.decide({ ...ids, changeId, digest, verdict }));
  return decidedAnswer({ verdict, digest, ack, change }, await readChanged(handle, settings));
}
