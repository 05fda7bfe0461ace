/**
 * Finds another server of a run that has the address of the called one, but not its authority.
 *
 * Signed consent names a server by its address (`domain/request/digest.ts`); token and headers are obtained by its
 * name. If two names of one run share an address, consent to a call of one would be as good for the other, and a
 * scheduler could choose.
 * 1. The check uses the spec that was signed, this worker's own configuration, and catalogs as they are now (INV-G1).
 * 2. If both names have the same authority, either may be meant. A grant that was given later belongs to one name
 *    alone.
 * 3. Catalogs of servers at other addresses are not asked: a call does not wait for something unrelated to it (INV-G3).
 */
import type { Config } from '../../contracts/schemas/config.ts';
import type { RunSpec, ServerRef } from '../../contracts/schemas/run-spec.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import type { ReadCatalog } from './reader.ts';
import type { Namesakes } from '../trust/executions.ts';
import { ownValue } from '../kit/json.ts';

export function createNamesakes(config: Config, readCatalog: ReadCatalog): Namesakes {
  const configuredAs = (name: string): Config['servers'][string] | undefined => ownValue(config.servers, name);
  const placed = async ({ initiator, grants }: RunSpec, { name, url: own }: Pick<ServerRef, 'name' | 'url'>) => {
    const configured = configuredAs(name);
    const connection = (await readCatalog({ tenant: initiator.tenant, server: name }))?.connection;
    const url = configured?.url ?? connection?.url ?? own;
    const parts = {
      configured: configured && authorityOf(configured),
      connected: connection?.credentials,
      grant: grants.filter(({ server }) => server === name).map(({ server: _, ...grant }) => grant),
    };
    return { name, url: url && canonicalServerUrl(url), authority: canonicalJson(parts) };
  };
  return async (spec, called) => {
    const others = spec.servers.filter(({ name }) => {
      const url = configuredAs(name)?.url;
      return name !== called.name && (url === undefined || canonicalServerUrl(url) === called.url);
    });
    if (others.length === 0) return undefined;
    const { authority } = await placed(spec, called);
    const its = await Promise.all(others.map(async (other) => await placed(spec, other)));
    return its.find((other) => other.url === called.url && (called.regranted || other.authority !== authority))?.name;
  };
}

/** Returns what tells callers of one server apart: headers and credentials. */
export function authorityOf({ headers, credentials }: Config['servers'][string]): string {
  return canonicalJson({ headers, credentials });
}
