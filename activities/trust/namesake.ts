/**
 * Another server of a run that has the address of the one that is called, and not its authority.
 *
 * What people sign names a server by its address (`domain/digest.ts`); token and headers are obtained by its name. Where two names of
 * one run share an address, consent to a call of one would be as good for the other, and whoever schedules it could choose.
 * 1. Of the spec that was signed, by this worker's own configuration, and catalogs as they are (INV-G1).
 * 2. Where both are the same to the server, it does not matter which is meant.
 */
import type { Config } from '../../contracts/schemas/config.ts';
import type { RunSpec, ServerRef } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import { canonicalServerUrl } from '../../domain/server-url.ts';
import type { ReadCatalog } from '../catalog/reader.ts';

/** Its name; undefined where there is none. @throws CountersignError where a catalog cannot be read */
export type Namesakes = (spec: RunSpec, called: Pick<ServerBinding, 'name' | 'url'>) => Promise<string | undefined>;

interface Placed {
  readonly url: string | undefined;
  readonly authority: string;
}

export function createNamesakes(config: Config, readCatalog: ReadCatalog): Namesakes {
  const placed = async ({ initiator, grants }: RunSpec, { name, url: own }: ServerRef): Promise<Placed> => {
    const configured = Object.hasOwn(config.servers, name) ? config.servers[name] : undefined;
    const connection = (await readCatalog({ tenant: initiator.tenant, server: name }))?.connection;
    const url = configured?.url ?? connection?.url ?? own;
    const parts = {
      configured: configured && authorityOf(configured),
      connected: connection?.credentials,
      grant: grants.filter(({ server }) => server === name).map(({ server: _, ...grant }) => grant),
    };
    return { url: url && canonicalServerUrl(url), authority: canonicalJson(parts) };
  };
  return async (spec, called) => {
    if (spec.servers.length < 2) return undefined;
    const { authority } = await placed(spec, called);
    for (const other of spec.servers) {
      if (other.name === called.name) continue;
      const its = await placed(spec, other);
      if (its.url === called.url && its.authority !== authority) return other.name;
    }
    return undefined;
  };
}

/** What tells callers of one server apart. */
export function authorityOf({ headers, credentials }: Config['servers'][string]): string {
  return canonicalJson({ headers, credentials });
}
