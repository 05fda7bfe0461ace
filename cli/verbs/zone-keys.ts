/**
 * Implements `countersign keys zone`. It makes the key with which workers prove what they write, and finds
 * out whether runs still need one (docs/adr/0047).
 */
import { randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec } from '@temporalio/common';
import type { Command } from 'commander';
import { listExecutions } from '../../client/engine/executions.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { UNDECODABLE_ENCODING } from '../../contracts/payload-converter.ts';
import { Name } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { KEY_FIELD } from '../../contracts/zone.ts';
import { visible } from '../../domain/text/escape.ts';
import type { History } from '../../workers/replay/recorded-history.ts';
import { print } from '../session/answered.ts';
import { examples } from '../session/examples.ts';
import type { GlobalOptions } from '../session/options.ts';
import { withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';

const MOST_NAMED = 20;

export function addZoneKeys(keys: Command, terminal: Terminal): void {
  const zone = keys
    .command('zone')
    .summary('keys with which workers prove what they write (trust mode signed)')
    .description('Make a key for trust.zone.keys, or see which running workflows still need one')
    .addHelpText('after', examples('keys zone new zone-2026', 'keys zone used zone-2025'));
  zone
    .command('new <id>')
    .summary('make a key')
    .description('Make a symmetric key, and print it: for the environment of workers, and of nobody else')
    .addHelpText('after', examples('keys zone new zone-2026'))
    .action((given: string, _own: unknown, command: Command) => {
      const { json } = command.optsWithGlobals<GlobalOptions>();
      const id = parseAs(Name, given, 'USAGE', 'key id');
      const key = randomBytes(32).toString('base64');
      print(terminal, { json: { id, key }, text: () => key }, json === true);
      if (json !== true)
        terminal.err(
          `\nIn countersign.yaml of all workers. Put it last until all of them have it, then first:\n\n  trust:\n    zone:\n      keys:\n        - id: ${id}\n          key: \${ZONE_KEY}\n`,
        );
    });
  zone
    .command('used <id>')
    .summary('which running workflows need a key; exit code 2 if any does')
    .description('Look through the histories of all running runs and catalogs for what was proven by a key')
    .addHelpText('after', examples('keys zone used zone-2025', 'keys zone used zone-2025 --json'))
    .action(async (given: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const id = parseAs(Name, given, 'USAGE', 'key id');
      const { looked, users } = await usersOf(id, options, terminal);
      const named = users
        .slice(0, MOST_NAMED)
        .map((user) => `\n  ${visible(user)}`)
        .join('');
      const more = users.length > MOST_NAMED ? `\n  and ${users.length - MOST_NAMED} more` : '';
      const text = (): string =>
        users.length === 0
          ? `None of ${looked} running workflows needs key ${id}.`
          : `${users.length} of ${looked} running workflows need key ${id}:${named}${more}`;
      print(terminal, { json: { id, looked, users }, text }, options.json === true);
      if (users.length === 0) return;
      throw new CountersignError(
        'CONFIG_INVALID',
        `Key ${id} is in use: leave it in trust.zone.keys until these have ended.`,
        {
          path: 'trust.zone.keys',
        },
      );
    });
}

async function usersOf(
  id: string,
  options: GlobalOptions,
  terminal: Terminal,
): Promise<{ readonly looked: number; readonly users: readonly string[] }> {
  const { liveHistories } = await import('../../workers/replay/replay.ts');
  return await withSession(terminal, options, async ({ client }) => {
    const users: string[] = [];
    let looked = 0;
    const query = `WorkflowType IN ('${RUN_WORKFLOW}', '${CATALOG_WORKFLOW}') AND ExecutionStatus = 'Running'`;
    for await (const recorded of liveHistories(client, listExecutions(client, query))) {
      if (recorded.kind === 'unreadable') throw recorded.error;
      looked += 1;
      const names = await keysIn(recorded.history, client.options.loadedDataConverter.payloadCodecs);
      if (names.has(id)) users.push(recorded.workflowId);
    }
    return { looked, users };
  });
}

/** Returns the key ids in an execution's input and in the results of its activities. */
async function keysIn({ events }: History, codecs: readonly PayloadCodec[]): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for (const event of events ?? []) {
    const failure = event.activityTaskFailedEventAttributes?.failure;
    const sealed: readonly Payload[] = [
      ...(event.workflowExecutionStartedEventAttributes?.input?.payloads ?? []),
      ...(event.activityTaskCompletedEventAttributes?.result?.payloads ?? []),
      ...(failure?.applicationFailureInfo?.details?.payloads ?? []),
    ];
    for (const payload of await decoded(sealed, codecs)) {
      const encoding = Buffer.from(payload.metadata?.['encoding'] ?? []).toString('utf8');
      if (encoding === UNDECODABLE_ENCODING)
        throw new CountersignError(
          'CONFIG_INVALID',
          'A history is encrypted, and encryption.keys does not hold its key; nothing is known of it.',
          {
            path: 'encryption.keys',
          },
        );
      const name = payload.metadata?.[KEY_FIELD];
      if (name) names.add(Buffer.from(name).toString('utf8'));
    }
  }
  return names;
}

async function decoded(payloads: readonly Payload[], codecs: readonly PayloadCodec[]): Promise<readonly Payload[]> {
  let read = [...payloads];
  for (const codec of codecs.toReversed()) read = await codec.decode(read);
  return read;
}
