/** Describes what `countersign dev` has started. */
import type { TrustConfig } from '../../contracts/schemas/trust.ts';
import type { Answer } from '../session/verb.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import { fields } from './format.ts';
import { trustText } from './verified-ledger.ts';

export interface DevAddresses {
  readonly address: string;
  readonly namespace: string;
  readonly uiUrl: string;
  /** Where Temporal UI has encrypted payloads decrypted; absent where nothing is encrypted. */
  readonly codec: string | undefined;
  /** Absent where the gateway would need a key. `isOpen`: whoever reaches it says who they are. */
  readonly gateway: { readonly url: string; readonly isOpen: boolean } | undefined;
  readonly files: { readonly url: string; readonly folder: string };
  readonly model: string | undefined;
  readonly config: string;
  readonly directory: string;
  readonly taskQueue: string;
  readonly buildId: string;
  readonly trust: TrustConfig;
  /** Environment variables with which commands in another terminal find this server. */
  readonly environment: Readonly<Record<string, string>>;
  readonly example: string | undefined;
}

export function devAnswer(addresses: DevAddresses): Answer {
  const { directory, trust, example, ...told } = addresses;
  const { address, namespace, uiUrl, codec, gateway, files, model, config, taskQueue, buildId, environment } = told;
  const set = Object.entries(environment).map(([name, value]) => `${name}=${shellWord(value)}`);
  const tries = [
    ...(set.length > 0 ? [`export ${set.join(' ')}`] : []),
    `countersign start ${shellWord(example ?? '')} --id summary-1`,
    'countersign requests summary-1',
    'countersign approve summary-1 t3.c0 --as ann',
    'countersign result summary-1',
    'countersign ledger summary-1',
  ];
  return {
    json: told,
    text: (paint) =>
      [
        `\n${paint('bold', 'Countersign is running.')}\n`,
        fields(paint, [
          ['Temporal', `${address}, namespace ${namespace}`],
          ['Temporal UI', paint('cyan', uiUrl)],
          ['codec', codec && `${codec}  (DEVELOPMENT: whoever reaches it reads encrypted runs, as Temporal UI does)`],
          ['gateway', gateway && gatewayText(gateway)],
          ['MCP server', `${files.url}  (server-filesystem on ${directory}/files)`],
          ['model', model],
          ['worker', `build ${buildId}, queue ${taskQueue}, configuration ${config}`],
          ['trust', trustText(trust, namespace)],
        ]),
        ...(model === undefined || example === undefined
          ? []
          : [
              `\nTry, in another terminal (countersign is npx countersign, unless it is on PATH):\n\n${tries.map((line) => `  ${line}`).join('\n')}`,
            ]),
        `\n${paint('dim', `Ctrl-C ends all of it. Runs are kept in ${directory}/temporal.db.`)}`,
      ].join('\n'),
  };
}

function gatewayText({ url, isOpen }: NonNullable<DevAddresses['gateway']>): string {
  return isOpen ? `${url}  (DEVELOPMENT LOGIN: whoever reaches it may sign in as anybody)` : url;
}
