/** Makes the model read a resource that a leaking server has linked to. */
import { READ_RESOURCE } from '../../contracts/names.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { READABLE } from './canary-server.ts';
import { said } from './model-dialect.ts';

/** Servers of the scene whose links may be read. */
const READ = ['given', 'minted'];

/** Returns the model's turns that read, with everything the model knows; none for other servers. */
export function readingTurns(server: string, echo: string): ReturnType<typeof said>[] {
  if (!READ.includes(server)) return [];
  const name = `${server}__resources_read_${hashOf([server, READ_RESOURCE]).slice(0, 16)}`;
  const call = { type: 'call' as const, id: 'id-read', name, json: JSON.stringify({ uri: READABLE }) };
  return [said([{ type: 'text', text: echo }, call])];
}
