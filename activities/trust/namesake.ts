/**
 * Another server of a run that has the address of the one that is called, and not its authority.
 *
 * What people sign names a server by its address (`domain/request/digest.ts`); token and headers are obtained by its name. Where two names of
 * one run share an address, consent to a call of one would be as good for the other, and whoever schedules it could choose.
 * 1. Of the spec that was signed, by this worker's own configuration, and catalogs as they are (INV-G1).
 * 2. Where both are the same to the server, it does not matter which is meant; a grant that was given later is of one name alone.
 * 3. Catalogs of servers that are elsewhere are not asked: a call does not wait for what it has nothing to do with (INV-G3).
 */
import type { Config } from '../../contracts/schemas/config.ts';
import type { RunSpec, ServerRef } from '../../contracts/schemas/run-spec.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import type { ReadCatalog } from '../catalog/reader.ts';

/** As a dispatch has it. */
export interface Called extends Pick<ServerBinding, 'name' | 'url'> {
  /** Is it called with a grant that the signed spec does not have? */
  readonly regranted: boolean;
}

/** Its name; undefined where there is none. @throws CountersignError where a catalog cannot be read */
export type Namesakes = (spec: RunSpec, called: Called) => Promise<string | undefined>;

interface Placed {
  readonly name: string;
  readonly url: string | undefined;
  readonly authority: string;
}

export function createNamesakes(config: Config, readCatalog: ReadCatalog): Namesakes {
  const configuredAs = (name: string): Config['servers'][string] | undefined =>
    Object.hasOwn(config.servers, name) ? config.servers[name] : undefined;
  const placed = async (
    { initiator, grants }: RunSpec,
    { name, url: own }: Pick<ServerRef, 'name' | 'url'>,
  ): Promise<Placed> => {
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

/** What tells callers of one server apart. */
export function authorityOf({ headers, credentials }: Config['servers'][string]): string {
  return canonicalJson({ headers, credentials });
}
