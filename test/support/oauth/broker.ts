/** Makes token brokers over configured servers with client credentials, and requests to them. */
import { createScrubber } from '../../../activities/scrubbing/scrubber.ts';
import { createTokenBroker } from '../../../activities/tokens/broker.ts';
import type { TokenBroker, TokenRequest } from '../../../activities/tokens/port.ts';
import { defined } from '../../../contracts/defined.ts';
import type { CountersignError } from '../../../contracts/errors.ts';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import { loopbackEgress } from '../egress.ts';

export const URL_OF = { notes: 'https://notes.example.com/mcp', files: 'https://files.example.com/mcp' };
/** Form encoding changes some of these characters, so each form of the secret differs. */
export const SECRET = 'canary s3cret+/=&%~!*()';
export const CLIENT = { id: 'countersign', secret: SECRET };

export function runOf(number: number): TokenRequest['run'] {
  return { namespace: 'default', workflowId: `run-${number}`, specHash: `${number}`.repeat(64) };
}

export function brokerFor(
  config: ConfigInput,
  rest: Partial<Parameters<typeof createTokenBroker>[0]> = {},
): TokenBroker {
  return createTokenBroker({ config: Config.parse(config), keys: new Map(), egress: loopbackEgress(), ...rest });
}

export function withClient(issuer: string, scopes: object = {}, more: object = {}): ConfigInput {
  const credentials = {
    kind: 'client-credentials' as const,
    issuer,
    clientId: CLIENT.id,
    clientSecret: SECRET,
    scopes,
    ...more,
  };
  return { servers: { notes: { url: URL_OF.notes, credentials }, files: { url: URL_OF.files, credentials } } };
}

export function requestFor(server: 'notes' | 'files', tool?: string): TokenRequest {
  return { run: runOf(1), server, serverUrl: URL_OF[server], ...defined({ tool }) };
}

/** Asserts that no string in which a credential could hide holds the secret, in any form in which it travels. */
export function expectNoSecret(error: CountersignError, ...secrets: string[]): void {
  const text = `${error.message} ${JSON.stringify(error.facts)} ${String(error.stack)} ${String(error.cause)}`;
  // `expect` is not used, since worker processes of tests load this file too.
  if (createScrubber(secrets).text(text) !== text) throw new Error(`a secret stands in: ${text}`);
}
