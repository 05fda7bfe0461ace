/**
 * Implements `countersign catalog` and its verbs that read, export, import and refresh. The other changes are
 * in `catalog-changes.ts`.
 */
import type { Command } from 'commander';
import type { CatalogHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { definitionDiff } from '../../domain/catalog/discovery.ts';
import { importPlan } from '../../domain/catalog/file.ts';
import { hasDrifted } from '../../domain/catalog/state.ts';
import { type Answer, print } from '../session/answered.ts';
import { entryNamed, readCatalog, readChanged, snapshotIfAny } from '../session/catalog-reading.ts';
import {
  type Acting,
  type ActingOptions,
  addActor,
  addIds,
  addTenant,
  type CatalogOptions,
  examples,
  type GlobalOptions,
  sendAs,
} from '../session/options.ts';
import { readInput } from '../session/files.ts';
import { type Session, withSession } from '../session/session.ts';
import { nothingOf, toldOrRead } from '../session/stuck-run.ts';
import type { Terminal } from '../session/terminal.ts';
import { changeAnswer, planAnswer, refreshAnswer } from '../views/catalog-change.ts';
import { catalogAnswer, catalogsAnswer, diffAnswer, toolAnswer, toolsAnswer } from '../views/catalog.ts';
import { stuckJson, stuckText } from '../views/recovery.ts';
import {
  addAllow,
  addAsk,
  addConnect,
  addDecide,
  addDisconnect,
  addSwitches,
  awaitRefresh,
} from './catalog-changes.ts';
import { assertImportable, catalogFile, catalogYaml, importTarget, parseCatalogFile } from './catalog-file.ts';

const VERBS = [
  addConnect,
  addList,
  addShow,
  addRefresh,
  addDiff,
  addAllow,
  addAsk,
  addSwitches,
  addDecide,
  addExport,
  addImport,
  addDisconnect,
];

export function addCatalog(program: Command, terminal: Terminal): void {
  const catalog = program
    .command('catalog')
    .summary('the stored tools of a server, and who may say what of them')
    .description(
      'The tools of a server as they are stored, with what operators say of each: allow, ask, deny, enable, disable',
    )
    .addHelpText('after', examples('catalog list', 'catalog list files', 'catalog ask files write_file --as ann'));
  for (const addVerb of VERBS) addVerb(catalog, terminal);
}

// `catalog list` lists the catalogs of a tenant, or the tools of one catalog.

function addList(catalog: Command, terminal: Terminal): void {
  addTenant(catalog.command('list'))
    .summary('the catalogs of a tenant, or the tools of one')
    .description('The catalogs of a tenant; with a server its tools, what is set of each, and what happens to a call')
    .argument('[server]', 'name of the server')
    .addHelpText('after', examples('catalog list', 'catalog list files', 'catalog list files --tenant acme --json'))
    .action(async (server: string | undefined, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<CatalogOptions>();
      const answer = await withSession(terminal, options, async ({ countersign, settings }) => {
        if (server !== undefined)
          return toolsAnswer(await readCatalog(countersign.catalog(server, options.tenant), settings));
        const listed = await countersign.catalogs({ tenant: options.tenant });
        const snapshots = await Promise.all(
          listed.map((each) => snapshotIfAny(countersign.catalog(each.server, each.tenant))),
        );
        return catalogsAnswer(
          options.tenant,
          snapshots.filter((snapshot) => snapshot !== undefined),
        );
      });
      print(terminal, answer, options.json === true);
    });
}

// `catalog show` shows one catalog, or one tool with everything that its server says of it.

function addShow(catalog: Command, terminal: Terminal): void {
  addTenant(catalog.command('show'))
    .summary('one catalog, or one tool in full')
    .description(
      'How a server is connected and what waits for a second administrator; with a tool, its whole definition',
    )
    .argument('<server>', 'name of the server')
    .argument('[tool]', 'as the server spells it')
    .addHelpText('after', examples('catalog show files', 'catalog show files write_file'))
    .action(async (server: string, tool: string | undefined, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<CatalogOptions>();
      const answer = await withSession(terminal, options, async (session) => {
        const { countersign, settings } = session;
        const handle = countersign.catalog(server, options.tenant);
        if (tool === undefined) return await wholeAnswer(session, handle);
        const reading = await readCatalog(handle, settings, { withDefinitions: true });
        return toolAnswer(reading, entryNamed(reading.snapshot, tool));
      });
      print(terminal, answer, options.json === true);
    });
}

/** Reads the catalog; if its workflow is stuck, shows what its history says. */
async function wholeAnswer(session: Session, handle: CatalogHandle): Promise<Answer> {
  const { told, stuck } = await toldOrRead(session, handle.workflowId, () => handle.snapshot());
  if (stuck === undefined) return catalogAnswer(told, Date.now());
  const { snapshot } = stuck.answers;
  if (snapshot === undefined) throw nothingOf(stuck, 'the catalog');
  const { text } = catalogAnswer(snapshot, Date.now());
  return {
    json: { ...snapshot, stuck: stuckJson(stuck) },
    text: (paint) => `${stuckText(stuck, paint)}\n${text(paint)}`,
  };
}

// `catalog diff` shows what a server has changed since an operator looked at its tools.

function addDiff(catalog: Command, terminal: Terminal): void {
  addTenant(catalog.command('diff'))
    .summary('what a server has changed since somebody looked')
    .description(
      'Definitions that have changed since an operator acknowledged them, field by field, and how to accept them',
    )
    .argument('<server>', 'name of the server')
    .argument('[tool]', 'as the server spells it')
    .addHelpText('after', examples('catalog diff files', 'catalog diff files read_file --json'))
    .action(async (server: string, tool: string | undefined, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<CatalogOptions>();
      const answer = await withSession(terminal, options, async ({ countersign }) => {
        const handle = countersign.catalog(server, options.tenant);
        const snapshot = await handle.snapshot();
        const entries = tool === undefined ? snapshot.entries.filter(hasDrifted) : [entryNamed(snapshot, tool)];
        const known = await handle.definitions({ ...snapshot, entries });
        const diffs = entries.flatMap((entry) => {
          const { current, acknowledged } = known.get(entry.name) ?? {};
          return current === undefined ? [] : [{ entry, differences: definitionDiff(acknowledged, current) }];
        });
        return diffAnswer(snapshot, diffs);
      });
      print(terminal, answer, options.json === true);
    });
}

// `catalog export` writes the settings of a server's tools to a file for review.

function addExport(catalog: Command, terminal: Terminal): void {
  addTenant(catalog.command('export'))
    .summary("what is set of a server's tools, as a file for review")
    .description(
      'Write what is set of each tool as YAML, the same catalog always in the same words; `import` reads it back',
    )
    .argument('<server>', 'name of the server')
    .addHelpText('after', examples('catalog export files > files.catalog.yaml', 'catalog export files --json'))
    .action(async (server: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<CatalogOptions>();
      const snapshot = await withSession(terminal, options, ({ countersign }) =>
        countersign.catalog(server, options.tenant).snapshot(),
      );
      const file = catalogFile(snapshot);
      print(terminal, { json: file, text: () => catalogYaml(file) }, options.json === true);
    });
}

// `catalog import` sets what differs between a file and a catalog, in one change.

interface ImportOptions extends GlobalOptions, Omit<Acting, 'as'> {
  readonly as?: string;
  readonly server?: string;
  readonly tenant?: string;
  readonly plan?: true;
}

function addImport(catalog: Command, terminal: Terminal): void {
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

// `catalog refresh` lists a server's tools again and shows what has changed.

function addRefresh(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('refresh')), { versioned: false })
    .summary('list the tools of a server anew')
    .description(
      'List the tools of a server anew, wait for it, and say what has changed; one that fails changes nothing',
    )
    .argument('<server>', 'name of the server')
    .addHelpText('after', examples('catalog refresh files --as ann', 'catalog refresh files --as ann --deadline 300'))
    .action(async (server: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ActingOptions>();
      const refreshed = await withSession(terminal, options, async ({ countersign }) => {
        const handle = countersign.catalog(server, options.tenant);
        const before = await handle.snapshot();
        const ack = await sendAs(options, undefined, (ids) => handle.refresh(ids));
        return await awaitRefresh(handle, ack.refresh ?? 0, before, options.deadline);
      });
      print(terminal, refreshAnswer(refreshed), options.json === true);
    });
}
