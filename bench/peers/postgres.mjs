// The one PostgreSQL of the comparison: a database for each peer, and what it has written and used.
import pg from 'pg';

export const ADMIN_URL = process.env['PEERS_PG'] ?? 'postgresql://bench@127.0.0.1:55432/postgres';
/** Connections of each peer. */
export const POOL = 32;

/** Statistics of other sessions are flushed once a second. */
const FLUSHED_MS = 1_100;

/** @param {string} database */
export function urlOf(database) {
  const url = new URL(ADMIN_URL);
  url.pathname = `/${database}`;
  return url.href;
}

/** An empty database of this name. @param {string} database @returns {Promise<string>} its URL */
export async function freshDatabase(database) {
  const client = new pg.Client({ connectionString: ADMIN_URL });
  await client.connect();
  await client.query(`DROP DATABASE IF EXISTS "${database}" WITH (FORCE)`);
  await client.query(`CREATE DATABASE "${database}"`);
  await client.end();
  return urlOf(database);
}

/** @param {readonly string[]} databases whose size and commits count */
export async function openProbe(databases) {
  const client = new pg.Client({ connectionString: ADMIN_URL });
  await client.connect();
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid, version() AS version');
  return {
    /** A backend; its parent is the server itself. */
    backend: Number(rows[0].pid),
    version: /^PostgreSQL [\d.]+/.exec(String(rows[0].version))?.[0] ?? '',
    async read() {
      await client.query('CHECKPOINT');
      await new Promise((resolve) => setTimeout(resolve, FLUSHED_MS));
      const { rows: read } = await client.query(
        `SELECT coalesce(sum(pg_database_size(d.oid)), 0)::bigint AS bytes,
                coalesce(sum(s.xact_commit), 0)::bigint AS commits,
                pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS wal
           FROM pg_database d JOIN pg_stat_database s ON s.datid = d.oid WHERE d.datname = ANY($1)`,
        [databases],
      );
      return { bytes: Number(read[0].bytes), commits: Number(read[0].commits), wal: Number(read[0].wal) };
    },
    close: async () => await client.end(),
  };
}
