// A NameNode and a DataNode of one test run, on the loopback interface: `java -cp … MiniHdfs FOLDER PORT-FILE`.
// Writes the NameNode's port into the file, and ends with its standard input.

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

public class MiniHdfs {
    public static void main(String[] args) throws Exception {
        Configuration conf = new Configuration();
        conf.set("hdfs.minidfs.basedir", args[0]);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
        cluster.waitActive();
        Path part = Path.of(args[1] + ".part");
        Files.writeString(part, Integer.toString(cluster.getNameNodePort()));
        Files.move(part, Path.of(args[1]));
        while (System.in.read() >= 0) {}
        System.exit(0);
    }
}
