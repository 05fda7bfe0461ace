/** `countersign catalog import`: sets what differs between a file and a catalog, in one change. */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { importPlan } from '../../../domain/catalog-file.ts';
import { print } from '../../answer.ts';
import { parseCatalogFile } from '../../catalog-file.ts';
import { assertImportable, importTarget } from '../../catalog-import.ts';
import { type Acting, addIds, sendAs } from '../../catalog-options.ts';
import { readChanged } from '../../catalog-reading.ts';
import { examples } from '../../examples.ts';
import { readInput } from '../../input-file.ts';
import type { GlobalOptions } from '../../options.ts';
import { type Session, withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';
import { changeAnswer } from '../../views/catalog-change.ts';
import { planAnswer } from '../../views/catalog-plan.ts';

interface ImportOptions extends GlobalOptions, Omit<Acting, 'as'> {
  readonly as?: string;
  readonly server?: string;
  readonly tenant?: string;
  readonly plan?: true;
}

export function addImport(catalog: Command, terminal: Terminal): void {
  const command = catalog
    .command('import')
    .summary('set what differs between a file and a catalog')
    .description('Set what differs between a file and a catalog: all of it in one change, or nothing. Tools only')
    .argument('<file>', 'what `catalog export` wrote, or a list of tools; - for standard input')
    .option('--as <id>', 'who asks for it; not needed with --plan')
    .option('--server <name>', 'whose tools a plain list names')
    .option('--tenant <name>', "whose catalog (default: the file's, `default`)")
    .option('--plan', 'show what would change, and change nothing')
    .addHelpText(
      'after',
      examples(
        'catalog import files.catalog.yaml --plan',
        'catalog import files.catalog.yaml --as ann',
        'catalog import tools.json --server files --as ann',
      ),
    )
    .action(async (source: string, _own: unknown, itself: Command) => {
      const options = itself.optsWithGlobals<ImportOptions>();
      const shown = source === '-' ? 'standard input' : source;
      const value = await readInput(source, { what: 'catalog file', code: 'CATALOG_INVALID' }, terminal);
      const answer = await withSession(terminal, options, (session) => importFile(session, value, shown, options));
      print(terminal, answer, options.json === true);
    });
  addIds(command, true);
}

async function importFile({ countersign, settings }: Session, value: unknown, shown: string, options: ImportOptions) {
  const file = parseCatalogFile(value, shown);
  const { tenant, server } = importTarget(file, options, shown);
  const { as, plan: isPlan } = options;
  if (as === undefined && isPlan !== true)
    throw new CountersignError('USAGE', 'Say who asks for it with --as, or look at it first with --plan.');
  const handle = countersign.catalog(server, tenant);
  const before = await handle.snapshot();
  const plan = importPlan(before.entries, file.tools);
  assertImportable(plan, { shown, isPlan: isPlan === true, tenant, server });
  if (as === undefined || isPlan === true) return planAnswer(before, plan, file);
  const expectedVersion = options.expectedVersion ?? before.policyVersion;
  const changes = plan.tools.map(({ change }) => change);
  const ack =
    changes.length === 0
      ? undefined
      : await sendAs({ ...options, as }, expectedVersion, (ids) =>
          handle.setToolPolicies({ ...ids, expectedVersion, changes }),
        );
  const names = changes.map(({ tool }) => tool);
  return changeAnswer(before, ack, await readChanged(handle, settings), names);
}
