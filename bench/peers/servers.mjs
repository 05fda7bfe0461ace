// `node bench/peers/servers.mjs up` builds and starts what the comparison needs, on loopback: a PostgreSQL, and a
// Temporal server whose stores are in it. `down` ends both. Everything lies in .build/peers-servers. PostgreSQL 15 or
// newer and Go 1.26 must be installed.
import { execFileSync, spawn } from 'node:child_process';
import {
  appendFileSync,
  chownSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import temporal from '@temporalio/client';

const TEMPORAL_VERSION = 'v1.32.0';
const PG_PORT = 55_432;
const FRONTEND_PORT = 17_233;
const ADDRESS = `127.0.0.1:${FRONTEND_PORT}`;
const SHARDS = 128;
const UP_MS = 120_000;
/** The server reads namespaces anew every ten seconds. */
const NAMESPACE_SEEN_MS = 12_000;

const place = fileURLToPath(new URL('../../.build/peers-servers/', import.meta.url));
const data = join(place, 'postgres');
const pidFile = join(place, 'temporal.pid');
const socketFolder = join(place, 'socket');
const [verb] = process.argv.slice(2);

if (verb === 'up') {
  mkdirSync(place, { recursive: true });
  await startPostgres();
  const bin = process.env['TEMPORAL_BIN'] ?? buildTemporal();
  await startTemporal(bin);
  process.stdout.write(`PostgreSQL at 127.0.0.1:${PG_PORT}, Temporal at ${ADDRESS}\n`);
} else if (verb === 'down') {
  await stopTemporal();
  if (await isListening(PG_PORT)) asPostgres('pg_ctl', '-D', data, '-m', 'fast', '-w', 'stop');
} else {
  process.stderr.write('usage: node bench/peers/servers.mjs up | down\n');
  process.exit(2);
}
process.exit(0);

async function startPostgres() {
  if (!existsSync(data)) {
    for (const folder of [data, socketFolder]) {
      mkdirSync(folder, { mode: 0o700 });
      const { uid, gid } = owner();
      if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
    }
    asPostgres('initdb', '-D', data, '-U', 'bench', '--auth=trust');
    const settings = {
      listen_addresses: "'127.0.0.1'",
      port: PG_PORT,
      unix_socket_directories: `'${socketFolder}'`,
      shared_buffers: '1GB',
      max_connections: 300,
      max_wal_size: '4GB',
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
    appendFileSync(join(data, 'postgresql.conf'), lines.join(''));
  }
  if (await isListening(PG_PORT)) return;
  asPostgres('pg_ctl', '-D', data, '-w', '-l', join(data, 'server.log'), 'start');
}

/** PostgreSQL refuses to be root. */
function owner() {
  if (process.getuid?.() !== 0) return {};
  const idOf = (/** @type {string} */ flag) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: idOf('-u'), gid: idOf('-g') };
}

/** @param {string} tool @param {readonly string[]} args */
function asPostgres(tool, ...args) {
  execFileSync(join(postgresBin(), tool), args, { stdio: ['ignore', 'ignore', 'inherit'], cwd: '/', ...owner() });
}

function postgresBin() {
  const given = process.env['PG_BIN'];
  if (given !== undefined) return given;
  const packaged = '/usr/lib/postgresql';
  const versions = existsSync(packaged) ? readdirSync(packaged).toSorted((a, b) => Number(b) - Number(a)) : [];
  return versions[0] === undefined
    ? execFileSync('pg_config', ['--bindir'], { encoding: 'utf8' }).trim()
    : join(packaged, versions[0], 'bin');
}

/** From the Go module proxy: minutes the first time. @returns {string} the folder of the two programs */
function buildTemporal() {
  const folder = join(place, 'temporal');
  if (existsSync(join(folder, 'temporal-server'))) return folder;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'go.mod'), 'module peers\n\ngo 1.26.0\n');
  const programs = { 'temporal-sql-tool': 'tools/sql', 'temporal-server': 'server' };
  const paths = Object.values(programs).map((path) => `go.temporal.io/server/cmd/${path}`);
  go(folder, 'get', ...paths.map((path) => `${path}@${TEMPORAL_VERSION}`));
  for (const [name, path] of Object.entries(programs))
    go(folder, 'build', '-o', name, `go.temporal.io/server/cmd/${path}`);
  return folder;
}

/** @param {string} cwd @param {readonly string[]} args */
function go(cwd, ...args) {
  const env = { ...process.env, GOFLAGS: '-mod=mod' };
  return execFileSync('go', args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}

/** @param {string} bin */
async function startTemporal(bin) {
  if (await isListening(FRONTEND_PORT)) return;
  const source = go(bin, 'list', '-m', '-f', '{{.Dir}}', 'go.temporal.io/server');
  for (const [database, schema] of [
    ['temporal', 'temporal'],
    ['temporal_visibility', 'visibility'],
  ]) {
    const sql = (/** @type {readonly string[]} */ ...args) =>
      execFileSync(
        join(bin, 'temporal-sql-tool'),
        // prettier-ignore
        ['--plugin', 'postgres12', '--ep', '127.0.0.1', '--port', String(PG_PORT), '--user', 'bench', '--password', 'unused', '--db', database, ...args],
        { stdio: 'ignore' },
      );
    try {
      sql('create');
    } catch {
      // It is there from the last time.
      continue;
    }
    sql('setup-schema', '-v', '0.0');
    sql('update-schema', '--schema-dir', join(source, 'schema/postgresql/v12', schema, 'versioned'));
  }
  const file = join(place, 'temporal.json');
  // JSON is YAML.
  writeFileSync(file, JSON.stringify(serverConfiguration(), undefined, 1));
  const log = openSync(join(place, 'temporal.log'), 'a');
  const server = spawn(join(bin, 'temporal-server'), ['--config-file', file, '--allow-no-auth', 'start'], {
    detached: true,
    stdio: ['ignore', log, log],
  });
  server.unref();
  writeFileSync(pidFile, String(server.pid));
  const connection = await connected(server);
  const { workflowService } = connection;
  const retention = { seconds: 86_400 };
  try {
    await workflowService.registerNamespace({ namespace: 'default', workflowExecutionRetentionPeriod: retention });
  } catch (error) {
    // It is there from the last time: ALREADY_EXISTS.
    if (error.code !== 6) throw error;
  }
  await pause(NAMESPACE_SEEN_MS);
  await connection.close();
}

/** Its stores must outlive it, and its ports must be free for the next one. */
async function stopTemporal() {
  if (!existsSync(pidFile)) return;
  const pid = Number(readFileSync(pidFile, 'utf8'));
  rmSync(pidFile);
  try {
    process.kill(pid, 'SIGTERM');
    for (const until = Date.now() + UP_MS; Date.now() < until;) {
      process.kill(pid, 0);
      await pause(200);
    }
  } catch {
    // It has ended.
  }
}

/** @param {import('node:child_process').ChildProcess} server */
async function connected(server) {
  const ended = once(server, 'exit').then(([code]) => {
    throw new Error(`the Temporal server ended with ${code}: see ${join(place, 'temporal.log')}`);
  });
  for (const until = Date.now() + UP_MS; ;) {
    try {
      return await Promise.race([temporal.Connection.connect({ address: ADDRESS, connectTimeout: 1_000 }), ended]);
    } catch (error) {
      if (Date.now() > until || server.exitCode !== null) throw error;
      await pause(500);
    }
  }
}

function serverConfiguration() {
  const store = (databaseName, maxConns) => ({
    sql: {
      pluginName: 'postgres12',
      databaseName,
      connectAddr: `127.0.0.1:${PG_PORT}`,
      connectProtocol: 'tcp',
      user: 'bench',
      password: 'unused',
      maxConns,
      maxIdleConns: maxConns,
      maxConnLifetime: '1h',
    },
  });
  const service = (offset) => ({
    rpc: { grpcPort: FRONTEND_PORT + offset, membershipPort: FRONTEND_PORT + 100 + offset, bindOnLocalHost: true },
  });
  return {
    log: { stdout: true, level: 'error' },
    persistence: {
      defaultStore: 'runs',
      visibilityStore: 'visibility',
      numHistoryShards: SHARDS,
      datastores: { runs: store('temporal', 32), visibility: store('temporal_visibility', 8) },
    },
    global: { membership: { maxJoinDuration: '30s', broadcastAddress: '127.0.0.1' } },
    services: { frontend: service(0), history: service(1), matching: service(2), worker: service(6) },
    clusterMetadata: {
      enableGlobalNamespace: false,
      failoverVersionIncrement: 10,
      masterClusterName: 'active',
      currentClusterName: 'active',
      clusterInformation: {
        active: { enabled: true, initialFailoverVersion: 1, rpcName: 'frontend', rpcAddress: ADDRESS },
      },
    },
    dcRedirectionPolicy: { policy: 'noop' },
  };
}

/** @param {number} port @returns {Promise<boolean>} */
async function isListening(port) {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
