/**
 * Checks whether a read of a linked resource may leave (docs/adr/0042). The run's own judgement of the link is not
 * believed.
 *
 * 1. The read leaves only if this worker's own configuration lets links in the results of this server be followed.
 * 2. The link is looked up in the conversation of the run that Temporal says has scheduled this activity. It must be in
 *    the result of a tool of the same server, with exactly this URI.
 */
import { CountersignError } from '../../contracts/errors.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { ToolTarget } from '../../contracts/schemas/call.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { namesLink, notLinked, readsLinks } from '../../domain/run/resource-link.ts';
import { type Refused, refused } from '../kit/activity.ts';
import type { ReadMessage } from '../run/read-transcript.ts';
import type { CallToolParts } from './send.ts';

export function checkReading(
  { server, tool }: Pick<ToolTarget, 'server' | 'tool'>,
  { servers }: Pick<Config, 'servers'>,
): Refused | undefined {
  if (tool !== READ_RESOURCE || readsLinks(servers, server)) return undefined;
  const message = `Resources that results of ${server} link to are not read by this worker (servers.${server}.resourceLinks).`;
  return refused('TOOL_DISABLED', message);
}

/**
 * @param input of a read
 * @throws CountersignError `TOOL_UNAVAILABLE` if the conversation cannot be read
 */
export async function checkLink(
  input: DispatchInput,
  parts: Pick<CallToolParts, 'loadToolset' | 'readMessage'> & { readonly config: Pick<Config, 'servers'> },
): Promise<Refused | undefined> {
  const { target, toolset, link } = input;
  const { server } = target;
  const disabled = checkReading(target, parts.config);
  if (disabled !== undefined) return disabled;
  const { uri } = input.arguments;
  const { readMessage: read } = parts;
  const message = link === undefined || read === undefined ? undefined : await messageAt(input, link.at, read);
  const offered = await parts.loadToolset(toolset);
  const serverOf = (name: string): string | undefined => offered.find(({ modelName }) => modelName === name)?.server;
  if (namesLink(message, { server, uri }, serverOf)) return undefined;
  return refused('RESOURCE_NOT_LINKED', notLinked(server));
}

async function messageAt({ run, runId }: DispatchInput, at: number, read: ReadMessage): Promise<Message | undefined> {
  if (!Number.isSafeInteger(at) || at < 0) return undefined;
  try {
    // Both ids were compared with Temporal's word before (`dispatch-check.ts`).
    return await read(run.workflowId, runId, at);
  } catch {
    const text = 'The conversation of the run, which says what may be read, cannot be had; the call was not sent.';
    throw new CountersignError('TOOL_UNAVAILABLE', text);
  }
}
