/** `countersign catalog connect`: begins a catalog, or changes how its server is reached. */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { print } from '../../answer.ts';
import { type ActingOptions, addActor, addTenant, sendAs } from '../../catalog-options.ts';
import { snapshotIfAny } from '../../catalog-reading.ts';
import { awaitRefresh } from '../../catalog-refresh.ts';
import { examples } from '../../examples.ts';
import { type Session, withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';
import { connectAnswer } from '../../views/catalog-refresh.ts';

interface ConnectOptions extends ActingOptions {
  readonly url?: string;
  readonly credentials?: string;
  readonly trusted?: true;
  readonly taskQueue?: string;
  readonly anew?: true;
}

export function addConnect(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('connect')))
    .summary('begin a catalog, or change how its server is reached')
    .description(
      'Connect a server and list its tools; again, to change how it is reached: what is not said is then off',
    )
    .argument('<server>', 'name of the server')
    .option('--url <url>', "MCP endpoint (default: the server's in the configuration)")
    .option('--credentials <name>', "entry of `credentials` in the workers' configuration; never a secret")
    .option('--trusted', "the server's annotations may exempt calls from asking")
    .option('--task-queue <name>', 'queue whose workers reach the server')
    .option('--anew', 'also where the last catalog was terminated: without what was set there')
    .addHelpText(
      'after',
      examples(
        'catalog connect files --as ann',
        'catalog connect tickets --as ann --url https://tickets.example.com/mcp --credentials tickets-reader',
      ),
    )
    .action(async (server: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ConnectOptions>();
      const answer = await withSession(terminal, options, (session) => connect(session, server, options));
      print(terminal, answer, options.json === true);
    });
}

async function connect({ countersign, settings }: Session, server: string, options: ConnectOptions) {
  const { credentials, trusted, taskQueue } = options;
  const handle = countersign.catalog(server, options.tenant);
  const configured = Object.hasOwn(settings.serverUrls, server) ? settings.serverUrls[server] : undefined;
  const url = options.url ?? configured;
  if (url === undefined)
    throw new CountersignError('USAGE', `The configuration names no server ${server}; say where it is with --url.`);
  const anew = options.anew === true;
  const before = anew ? undefined : await snapshotIfAny(handle);
  const version = options.expectedVersion ?? before?.policyVersion;
  const ack = await sendAs(options, version, (ids) =>
    handle.connect(
      {
        ...ids,
        url,
        ...(credentials === undefined ? {} : { credentials }),
        ...(trusted === undefined ? {} : { trusted }),
        ...(taskQueue === undefined ? {} : { taskQueue }),
        ...(version === undefined ? {} : { expectedVersion: version }),
      },
      { anew },
    ),
  );
  const refreshed = await awaitRefresh(handle, ack.refresh ?? 0, before, options.deadline);
  return connectAnswer(ack, refreshed, Date.now());
}
