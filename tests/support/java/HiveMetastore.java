// A Hive metastore of one test run: `java -cp … HiveMetastore WAREHOUSE PORT-FILE [KEY=VALUE …]`.
// Its database is Derby in memory, it listens on the loopback interface only, writes its port into the file, and ends
// with its standard input.

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf.ConfVars;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransportFactory;

public class HiveMetastore {
    public static void main(String[] args) throws Exception {
        Configuration conf = MetastoreConf.newMetastoreConf();
        MetastoreConf.setVar(conf, ConfVars.CONNECT_URL_KEY, "jdbc:derby:memory:metastore;create=true");
        MetastoreConf.setVar(conf, ConfVars.WAREHOUSE, args[0]);
        MetastoreConf.setBoolVar(conf, ConfVars.AUTO_CREATE_ALL, true);
        MetastoreConf.setBoolVar(conf, ConfVars.SCHEMA_VERIFICATION, false);
        MetastoreConf.setBoolVar(conf, ConfVars.HIVE_SUPPORT_CONCURRENCY, true);
        // The defaults are classes of Hive itself, which a standalone metastore does not have.
        MetastoreConf.setVar(
                conf, ConfVars.TASK_THREADS_ALWAYS, "org.apache.hadoop.hive.metastore.events.EventCleanerTask");
        MetastoreConf.setVar(
                conf,
                ConfVars.EXPRESSION_PROXY_CLASS,
                "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy");
        for (int i = 2; i < args.length; i++) {
            String[] pair = args[i].split("=", 2);
            conf.set(pair[0], pair[1]);
        }
        TxnDbUtil.prepDb(conf);
        IHMSHandler handler =
                RetryingHMSHandler.getProxy(conf, new HiveMetaStore.HMSHandler("metastore", conf, false), true);
        TServerSocket socket = new TServerSocket(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        TThreadPoolServer server =
                new TThreadPoolServer(
                        new TThreadPoolServer.Args(socket)
                                .processor(new TSetIpAddressProcessor<>(handler))
                                .transportFactory(new TTransportFactory())
                                .protocolFactory(new TBinaryProtocol.Factory())
                                .minWorkerThreads(2)
                                .maxWorkerThreads(50));
        Path port = Path.of(args[1]), part = Path.of(args[1] + ".part");
        Files.writeString(part, Integer.toString(socket.getServerSocket().getLocalPort()));
        Files.move(part, port);
        Thread watch = new Thread(HiveMetastore::endWithInput);
        watch.setDaemon(true);
        watch.start();
        server.serve();
    }

    private static void endWithInput() {
        try {
            while (System.in.read() >= 0) {}
        } catch (IOException e) {
            // As its end.
        }
        System.exit(0);
    }
}
